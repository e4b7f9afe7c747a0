#pragma once

#include <torch/types.h>

#include <functional>
#include <map>
#include <vector>

#include "propagator/core/config.h"

namespace propagator::pde {

// How the terms of a loss are weighed against one another.
//   fixed          as the configuration says
//   gradient_norm  so that their gradients are equally long
//   ntk            so that they are learned equally fast: inversely to the mean
//                  |∂r/∂θ|² of their residuals r, the diagonal of the tangent
//                  kernel. The Jacobian is the residual's own; the public
//                  scripts take that of the network, which knows nothing of
//                  the equation
//   uncertainty    by weights that are learned with the network
enum class Balance { kFixed, kGradientNorm, kNtk, kUncertainty };

// What a term of a loss is made of: the loss is the sum of mean squares.
using TermResiduals = std::function<std::vector<torch::Tensor>()>;

// Mean squares of residuals, summed for each term: (terms), in float64 for
// residuals of any type. They are one product with a matrix that is made once
// for all residuals of the same sizes, on one device: a GPU has a few calls to
// make in place of several for each residual, and a graph of them finds it
// where it was.
class MeanSquares {
 public:
  torch::Tensor operator()(
      const std::vector<std::vector<torch::Tensor>>& terms);

 private:
  using Sizes = std::vector<std::vector<int64_t>>;
  std::map<Sizes, torch::Tensor> averages_;  // (terms, numbers)
};

// Weights that balance the terms by gradient_norm or ntk, the first having
// `first`. A term whose residuals do not depend on the parameters, or vanish,
// gets the largest weight, kLargestBalanced times `first`. For ntk the kernel's
// diagonal is estimated with random signs, which `seed` and `step` decide.
inline constexpr double kLargestBalanced = 1e6;
std::vector<double> balanced_weights(
    Balance balance, const std::vector<TermResiduals>& terms,
    const std::vector<torch::Tensor>& parameters, double first, int64_t seed,
    int64_t step);

}  // namespace propagator::pde

namespace propagator::config {

template <>
struct Names<pde::Balance> {
  using enum pde::Balance;
  static constexpr std::pair<pde::Balance, const char*> all[] = {
      {kFixed, "fixed"},
      {kGradientNorm, "gradient_norm"},
      {kNtk, "ntk"},
      {kUncertainty, "uncertainty"}};
};

}  // namespace propagator::config
