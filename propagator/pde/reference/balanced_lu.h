#pragma once

#include <torch/types.h>

namespace propagator::pde {

// The LU factors of matrices (…, n, n) whose rows are first brought to one
// size. NumericalError if one is singular.
class BalancedLu {
 public:
  BalancedLu() = default;
  explicit BalancedLu(const torch::Tensor& matrix);

  bool defined() const { return lu_.defined(); }
  torch::Tensor solve(const torch::Tensor& right) const;  // (…, n, k)

 private:
  torch::Tensor lu_, pivots_, scale_;
};

}  // namespace propagator::pde
