#include "propagator/models/forecaster.h"

namespace propagator::models {

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
