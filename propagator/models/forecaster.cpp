#include "propagator/models/forecaster.h"

#include <algorithm>

#include "propagator/core/error.h"

namespace propagator::models {
namespace {

UsageError no_variance() {
  return UsageError("[forecast] this model predicts no variance",
                    "train one with loss.frames=heteroscedastic");
}

}  // namespace

FrameSpread Forecaster::spread(const torch::Tensor&, const torch::Tensor&) {
  throw no_variance();
}

torch::Tensor Forecaster::draw(const torch::Tensor&, const torch::Tensor&,
                               const FrameNoise&,
                               const std::function<void(int64_t)>&) {
  throw no_variance();
}

torch::Tensor Forecaster::predict_at(const torch::Tensor& first,
                                     const torch::Tensor& alpha,
                                     const std::vector<int64_t>& times) {
  const auto index = torch::tensor(times, torch::kInt64).to(first.device());
  return predict(first, alpha).index_select(1, index);
}

double Forecaster::work_of(const std::vector<int64_t>& times) const {
  // Every parameter once a frame.
  const auto frames = static_cast<double>(*std::ranges::max_element(times) + 1);
  double parameters = 0;
  for (const auto& p : this->parameters()) {
    parameters += static_cast<double>(p.numel());
  }
  return 2 * parameters * frames;
}

torch::Tensor published_rollout(Forecaster& model, const torch::Tensor& truth,
                                const torch::Tensor& alpha, int64_t stride,
                                const std::function<void(int64_t)>& progress) {
  auto frames = truth.clone();
  for (int64_t t = model.visible(); t < truth.size(1); t += stride) {
    const int64_t count = std::min(stride, truth.size(1) - t);
    const auto output = model.forward(frames, alpha);
    frames.narrow(1, t, count).copy_(output.narrow(1, t, count));
    if (progress) progress(t + count);
  }
  return frames;
}

}  // namespace propagator::models
