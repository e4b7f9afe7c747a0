#include "propagator/tasks/forecast/fields/field_sums.h"

#include "propagator/report/figure.h"

namespace propagator::tasks {

using torch::Tensor;

void SumDrift::add(const Tensor& last, const Tensor& later) {
  const auto chosen = [&](const Tensor& x) {
    const auto at = torch::tensor(channels_, torch::kInt64).to(x.device());
    return x.index_select(-1, at).to(torch::kFloat64);
  };
  const auto before = chosen(last).flatten(1, -2);           // (B, S, C)
  const auto sums = chosen(later).flatten(2, -2).sum(2);     // (B, T, C)
  const auto scale = before.abs().sum(1, /*keepdim=*/true);  // (B, 1, C)
  const auto moved = (sums - before.sum(1, /*keepdim=*/true)).abs();
  // A channel of zeros drifts by nothing or without bound.
  const auto drift = torch::where(moved > 0, moved / scale, moved);
  const auto part = drift.sum(0).cpu();
  sum_ = sum_.defined() ? sum_ + part : part;
  cases_ += last.size(0);
}

nlohmann::json SumDrift::numbers(const std::vector<std::string>& names) const {
  const auto mean = sum_ / cases_;
  nlohmann::json each;
  for (size_t n = 0; n < names.size(); ++n) {
    const auto one = mean.select(1, static_cast<int64_t>(n));
    each[names[n]] = {{"largest", one.max().item<double>()},
                      {"per_frame", report::numbers(one)}};
  }
  return each;
}

}  // namespace propagator::tasks
