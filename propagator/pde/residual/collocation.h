#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "propagator/core/config.h"

namespace propagator::pde {

enum class Sampling { kGrid, kUniform, kLatinHypercube, kSobol };

// A box of D intervals.
struct Box {
  std::vector<double> low, high;
  int64_t dimensions() const { return static_cast<int64_t>(low.size()); }
};

// All combinations of the values of the axes, the last one fastest: (N, D).
torch::Tensor combinations(const std::vector<torch::Tensor>& axes);

// Points of the box, (N, D) in float64, where a residual is asked for.
//   grid             per_axis points along each variable, both ends included
//   uniform          independent of one another
//   latin_hypercube  every variable has one point in each of N equal cells
//   sobol            a Sobol sequence, shifted as a whole by random numbers
// All but the grid have as many points, per_axis^D, and depend on the seed,
// the stream's name and `round`, by which points are resampled.
torch::Tensor sample(const Box& box, Sampling sampling, int64_t per_axis,
                     int64_t seed, const std::string& stream,
                     int64_t round = 0);
// So many, of any but a grid.
torch::Tensor sample_count(const Box& box, Sampling sampling, int64_t count,
                           int64_t seed, const std::string& stream,
                           int64_t round = 0);

// The centres of `per_axis` cells along each variable: points for a test,
// which no grid of another size shares.
torch::Tensor cell_centres(const Box& box, int64_t per_axis);

}  // namespace propagator::pde

namespace propagator::config {

template <>
struct Names<pde::Sampling> {
  using enum pde::Sampling;
  static constexpr std::pair<pde::Sampling, const char*> all[] = {
      {kGrid, "grid"},
      {kUniform, "uniform"},
      {kLatinHypercube, "latin_hypercube"},
      {kSobol, "sobol"}};
};

}  // namespace propagator::config
