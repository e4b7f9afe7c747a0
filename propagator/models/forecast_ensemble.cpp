#include "propagator/models/forecast_ensemble.h"

#include <algorithm>

#include "propagator/core/error.h"

namespace propagator::models {
namespace {

// Of a member that cannot be one of the first's; empty if it can.
std::string unlike(const Forecaster& first, const Forecaster& other) {
  if (!other.predicts_variance()) return "predicts no variance";
  if (other.visible() != first.visible()) {
    return fmt::format("is given {} frames, and the first {}", other.visible(),
                       first.visible());
  }
  if (other.autoregressive() != first.autoregressive()) {
    return other.autoregressive()
               ? "goes from frame to frame, and the first does not"
               : "gives all frames at once, and the first does not";
  }
  return "";
}

}  // namespace

ForecastEnsemble::ForecastEnsemble(
    std::vector<std::shared_ptr<Forecaster>> members)
    : members_(std::move(members)) {
  if (members_.size() < 2) {
    throw UsageError("[ensemble] expected two members at least");
  }
  for (size_t n = 0; n < members_.size(); ++n) {
    const auto what = unlike(*members_.front(), *members_[n]);
    if (!what.empty()) {
      throw UsageError(fmt::format("[ensemble] member {} {}", n + 1, what),
                       "members are runs with loss.frames=heteroscedastic that "
                       "differ in their seed");
    }
    register_module(fmt::format("member_{}", n + 1), members_[n]);
  }
}

torch::Tensor ForecastEnsemble::forward(const torch::Tensor& frames,
                                        const torch::Tensor& alpha) {
  torch::Tensor sum;
  for (const auto& member : members_) {
    const auto answer = member->forward(frames, alpha);
    sum = sum.defined() ? sum + answer : answer;
  }
  return sum / static_cast<double>(members_.size());
}

torch::Tensor ForecastEnsemble::predict(
    const torch::Tensor& first, const torch::Tensor& alpha,
    const std::function<void(int64_t)>& progress) {
  torch::Tensor sum;
  for (const auto& member : members_) {
    const auto answer = member->predict(first, alpha);
    sum = sum.defined() ? sum + answer : answer;
  }
  if (progress) progress(sum.size(1));
  return sum / static_cast<double>(members_.size());
}

FrameSpread ForecastEnsemble::spread(const torch::Tensor& frames,
                                     const torch::Tensor& alpha) {
  std::vector<torch::Tensor> means, variances;
  for (const auto& member : members_) {
    const auto each = member->spread(frames, alpha);
    means.push_back(each.mean);
    variances.push_back(each.deviation.square());
  }
  const auto all = torch::stack(means);
  const auto mean = all.mean(0);
  const auto own = torch::stack(variances).mean(0);
  // Where no member has a doubt their means differ by rounding alone.
  const auto variance =
      torch::where(own > 0, own + (all - mean).square().mean(0), own);
  return {mean, variance.sqrt()};
}

std::vector<Forecaster*> ForecastEnsemble::members() {
  std::vector<Forecaster*> all;
  for (const auto& member : members_) all.push_back(member.get());
  return all;
}

bool ForecastEnsemble::uses_alpha() const {
  return std::ranges::any_of(
      members_, [](const auto& member) { return member->uses_alpha(); });
}

}  // namespace propagator::models
