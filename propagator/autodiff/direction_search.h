#pragma once

#include <cstdint>
#include <vector>

namespace propagator::autodiff {

using Orders = std::vector<int64_t>;  // one for each variable

// A Taylor coefficient along a direction, and its share of a derivative.
struct WeightedDirection {
  Orders direction;
  double weight;
};

// Directions d_r and weights w_r with Σ_r w_r c_n(d_r) = ∂^α, n being the order
// of α: Σ_r w_r d_r^β = α! for β = α and 0 for every other β of that order. Of
// the directions that are known already as many are used as help; others are
// small whole numbers. std::invalid_argument if there are none.
std::vector<WeightedDirection> combination_of(const Orders& alpha,
                                              const std::vector<Orders>& known);

}  // namespace propagator::autodiff
