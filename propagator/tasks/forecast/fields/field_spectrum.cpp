#include "propagator/tasks/forecast/fields/field_spectrum.h"

#include <torch/fft.h>

#include <algorithm>
#include <numeric>

namespace propagator::tasks {

using torch::Tensor;

Tensor largest_frequency(const std::vector<int64_t>& nodes,
                         const torch::Device& device) {
  auto largest = torch::zeros({1}, torch::device(device));
  for (const int64_t n : nodes) {
    const auto k =
        (torch::fft::fftfreq(n, 1.0 / static_cast<double>(n))).abs().to(device);
    largest = torch::maximum(largest.unsqueeze(-1), k).flatten();
  }
  return largest;  // (all)
}

Tensor energy_spectrum(const Tensor& fields) {
  const std::vector<int64_t> nodes(fields.sizes().begin() + 1,
                                   fields.sizes().end());
  std::vector<int64_t> axes(nodes.size());
  std::iota(axes.begin(), axes.end(), 1);
  const auto spectrum = torch::fft::fftn(fields.to(torch::kFloat64),
                                         at::OptionalIntArrayRef(), axes);
  const auto power = torch::abs(spectrum).square().flatten(1);
  const auto count = static_cast<double>(power.size(1));
  const auto k = largest_frequency(nodes, fields.device()).round();
  const int64_t shells = *std::ranges::max_element(nodes) / 2 + 1;
  return torch::zeros({fields.size(0), shells}, power.options())
      .index_add(1, k.to(torch::kInt64), power / (count * count));
}

}  // namespace propagator::tasks
