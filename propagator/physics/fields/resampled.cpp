#include "propagator/physics/fields/resampled.h"

#include <torch/fft.h>

namespace propagator::physics {
namespace {

using torch::Tensor;

// Each is (from, to): what becomes of a line of `from` numbers, from the right.

Tensor by_waves(int64_t from, int64_t to) {
  const int64_t fewer = std::min(from, to), kept = (fewer + 1) / 2;
  const auto spectrum =
      torch::fft::rfft(torch::eye(from, torch::kFloat64)).narrow(1, 0, kept);
  auto all = torch::zeros({from, to / 2 + 1}, spectrum.options());
  all.narrow(1, 0, kept).copy_(spectrum);
  return torch::fft::irfft(all, to) *
         (static_cast<double>(to) / static_cast<double>(from));
}

Tensor by_means(int64_t from, int64_t to) {
  const auto share = static_cast<double>(to) / static_cast<double>(from);
  return share *
         torch::eye(to, torch::kFloat64).repeat_interleave(from / to, 0);
}

// At places in units of the old nodes.
Tensor linear_at(const Tensor& places, int64_t from) {
  const auto at = places.clamp(0, static_cast<double>(from - 1));
  const auto node = torch::arange(from, torch::kFloat64).unsqueeze(1);
  return (1 - (at - node).abs()).clamp_min(0);
}

Tensor line_map(int64_t from, int64_t to, FieldGrid grid) {
  if (grid == FieldGrid::kPeriodic) return by_waves(from, to);
  if (grid == FieldGrid::kCells && to < from) return by_means(from, to);
  const auto index = torch::arange(to, torch::kFloat64);
  if (grid == FieldGrid::kCells) {
    const double ratio = static_cast<double>(from) / static_cast<double>(to);
    return linear_at((index + 0.5) * ratio - 0.5, from);
  }
  return linear_at(
      index * (static_cast<double>(from - 1) / static_cast<double>(to - 1)),
      from);
}

}  // namespace

Tensor resampled(const Tensor& fields, FieldGrid grid,
                 const std::vector<int64_t>& nodes) {
  auto result = fields;
  for (size_t d = 0; d < nodes.size(); ++d) {
    const auto axis = static_cast<int64_t>(d) + 1;
    const int64_t from = fields.size(axis);
    if (from == nodes[d]) continue;
    const auto map = line_map(from, nodes[d], grid).to(fields.options());
    result = torch::matmul(result.transpose(axis, -1), map).transpose(axis, -1);
  }
  return result;
}

int64_t coarser(int64_t nodes, FieldGrid grid) {
  const int64_t intervals = grid == FieldGrid::kEnds ? nodes - 1 : nodes;
  if (intervals % 2 != 0) return 0;
  return nodes - intervals / 2;
}

}  // namespace propagator::physics
