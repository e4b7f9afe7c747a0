#include "propagator/report/field_series.h"

#include <fmt/format.h>

#include <cmath>

#include "propagator/core/error.h"

namespace propagator::report {

FieldSeries FieldSeries::thinned(int64_t most) const {
  const auto count = static_cast<int64_t>(times.size());
  if (count <= most) return *this;
  if (most < 2) {
    throw UsageError(fmt::format(
        "[thinned] expected at least 2 frames to keep but got {}", most));
  }
  FieldSeries few = *this;
  few.times.clear();
  std::vector<int64_t> kept;
  for (int64_t n = 0; n < most; ++n) {
    kept.push_back((2 * n * (count - 1) + most - 1) / (2 * (most - 1)));
    few.times.push_back(times[static_cast<size_t>(kept.back())]);
  }
  const auto frames = torch::tensor(kept, torch::kInt64);
  if (truth.defined()) {
    few.truth = truth.index_select(1, frames.to(truth.device()));
  }
  few.prediction = prediction.index_select(1, frames.to(prediction.device()));
  return few;
}

FieldRange range_of(const FieldSeries& series, int64_t index) {
  const auto in_float64 = [&](const torch::Tensor& fields) {
    return fields[index].detach().to(torch::kCPU, torch::kFloat64);
  };
  const auto finite = [](const torch::Tensor& values) {
    return values.masked_select(values.isfinite());
  };
  const auto prediction = in_float64(series.prediction);
  const bool has_truth = series.truth.defined();
  const auto truth = has_truth ? in_float64(series.truth) : prediction;

  FieldRange range{0, 0, 0};
  const auto values = finite(torch::stack({truth, prediction}));
  if (values.numel() > 0) {
    range.low = values.min().item<double>();
    range.high = values.max().item<double>();
  }
  const auto errors = finite(prediction - truth).abs();
  if (errors.numel() > 0) range.error = errors.max().item<double>();

  if (range.low == range.high) {
    const double half = range.low == 0 ? 0.5 : 0.05 * std::abs(range.low);
    range.low -= half;
    range.high += half;
  }
  // No error at all is white on the field's own scale.
  if (has_truth && range.error == 0) range.error = range.high - range.low;
  return range;
}

}  // namespace propagator::report
