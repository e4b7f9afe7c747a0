#include "propagator/report/field_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "propagator/core/error.h"

namespace propagator::report {
namespace {

// The frame that an instant belongs to, if it is near any; frames rise.
std::optional<size_t> frame_of(const std::vector<double>& frames,
                               double instant) {
  const size_t last = frames.size() - 1;
  if (last == 0) return 0;
  const double before = frames[0] - instant, after = instant - frames[last];
  if (before > (frames[1] - frames[0]) / 2) return {};
  if (after > (frames[last] - frames[last - 1]) / 2) return {};
  if (after >= 0) return last;
  const auto next = std::ranges::lower_bound(frames, instant);
  const auto at = static_cast<size_t>(next - frames.begin());
  const bool earlier = at > 0 && instant - frames[at - 1] < *next - instant;
  return earlier ? at - 1 : at;
}

// A value's place along an axis of `count` nodes, unless it is outside them.
std::optional<double> node_of(const Axis& axis, double value, int64_t count) {
  const double length = axis.last - axis.first;
  const double share = length == 0 ? 0 : (value - axis.first) / length;
  const double node = share * static_cast<double>(count - 1);
  if (node < -0.5 || node > static_cast<double>(count) - 0.5) return {};
  return node;
}

}  // namespace

std::vector<std::vector<NodePlace>> FieldSeries::sensors_near(
    int64_t index) const {
  std::vector<std::vector<NodePlace>> all(times.size());
  if (sensors.empty()) return all;
  const auto& read = sensors[static_cast<size_t>(index)];
  for (size_t k = 0; k < read.times.size(); ++k) {
    const auto frame = frame_of(times, read.times[k]);
    const auto column = node_of(x, read.x[k], prediction.size(3));
    const auto row = node_of(y, read.y[k], prediction.size(2));
    if (frame && column && row) all[*frame].push_back({*column, *row});
  }
  for (auto& near : all) {
    const size_t count = near.size();
    if (count <= kMostSensors) continue;
    for (size_t k = 0; k < kMostSensors; ++k) {
      near[k] = near[k * count / kMostSensors];
    }
    near.resize(kMostSensors);
  }
  return all;
}

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
