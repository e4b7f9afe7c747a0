#include "propagator/pde/residual/collocation.h"

#include <ATen/ops/_sobol_engine_draw.h>
#include <ATen/ops/_sobol_engine_initialize_state.h>
#include <fmt/format.h>

#include <cmath>

#include "propagator/core/random.h"

namespace propagator::pde {
namespace {

using torch::Tensor;

int64_t count_of(int64_t per_axis, int64_t dimensions) {
  int64_t count = 1;
  for (int64_t d = 0; d < dimensions; ++d) count *= per_axis;
  return count;
}

// Points of the unit cube, moved into the box.
Tensor into_box(const Tensor& unit, const Box& box) {
  const auto low = torch::tensor(box.low, torch::kFloat64);
  const auto high = torch::tensor(box.high, torch::kFloat64);
  return low + unit * (high - low);
}

Tensor uniform(int64_t count, int64_t dimensions, const RandomStream& stream) {
  return stream.uniform({count, dimensions}, 0, 1, torch::kFloat64);
}

Tensor latin_hypercube(int64_t count, int64_t dimensions,
                       const RandomStream& stream) {
  auto cells = torch::empty({count, dimensions}, torch::kFloat64);
  for (int64_t d = 0; d < dimensions; ++d) {
    const auto order = stream.permutation(count, d + 1);
    cells.select(1, d).copy_(torch::tensor(order, torch::kInt64));
  }
  return (cells + uniform(count, dimensions, stream)) /
         static_cast<double>(count);
}

Tensor sobol(int64_t count, int64_t dimensions, const RandomStream& stream) {
  constexpr int64_t kBits = 30;  // of libtorch's engine
  auto state = torch::zeros({dimensions, kBits}, torch::kInt64);
  at::_sobol_engine_initialize_state_(state, dimensions);
  const auto quasi = torch::zeros({dimensions}, torch::kInt64);
  const auto drawn = std::get<0>(at::_sobol_engine_draw(
      quasi, count, state, dimensions, 0, torch::kFloat64));
  const auto shift = uniform(1, dimensions, stream);
  return torch::frac(drawn + shift);
}

}  // namespace

Tensor combinations(const std::vector<Tensor>& axes) {
  if (axes.empty()) return torch::zeros({1, 0}, torch::kFloat64);
  const auto meshes = torch::meshgrid(axes, "ij");
  std::vector<Tensor> columns;
  for (const auto& mesh : meshes) columns.push_back(mesh.flatten());
  return torch::stack(columns, 1);
}

Tensor sample(const Box& box, Sampling sampling, int64_t per_axis, int64_t seed,
              const std::string& name, int64_t round) {
  const int64_t dimensions = box.dimensions();
  if (sampling == Sampling::kGrid || dimensions == 0) {
    std::vector<Tensor> axes(static_cast<size_t>(dimensions),
                             torch::linspace(0, 1, per_axis, torch::kFloat64));
    return into_box(combinations(axes), box);
  }
  return sample_count(box, sampling, count_of(per_axis, dimensions), seed, name,
                      round);
}

Tensor sample_count(const Box& box, Sampling sampling, int64_t count,
                    int64_t seed, const std::string& name, int64_t round) {
  const int64_t dimensions = box.dimensions();
  const RandomStream stream(seed, fmt::format("{}/{}", name, round));
  switch (sampling) {
    case Sampling::kLatinHypercube:
      return into_box(latin_hypercube(count, dimensions, stream), box);
    case Sampling::kSobol:
      return into_box(sobol(count, dimensions, stream), box);
    default:
      return into_box(uniform(count, dimensions, stream), box);
  }
}

Tensor cell_centres(const Box& box, int64_t per_axis) {
  const auto centres = (torch::arange(per_axis, torch::kFloat64) + 0.5) /
                       static_cast<double>(per_axis);
  std::vector<Tensor> axes(box.low.size(), centres);
  return into_box(combinations(axes), box);
}

}  // namespace propagator::pde
