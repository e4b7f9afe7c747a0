#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

namespace propagator::tasks {

// Standard deviations of a normal number that hold 95 % of it.
inline constexpr double kReach95 = 1.959963984540054;

// An entry of H⁻¹'s diagonal, H being the Hessian of a function at `at`, by
// conjugate gradients on differences of its gradient. They come from below and
// stop where they change little, where H turns out not to be positive, or after
// so many iterations.
struct InverseEntry {
  double value = 0;
  int64_t iterations = 0;
  bool settled = false;  // it changed little at the end
};
// `gradient` of the function at a point (P), flat. `entry` is which.
InverseEntry inverse_hessian_entry(
    const std::function<torch::Tensor(const torch::Tensor&)>& gradient,
    const torch::Tensor& at, int64_t entry, int64_t most_iterations);

}  // namespace propagator::tasks
