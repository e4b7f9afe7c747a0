#pragma once

#include <torch/types.h>

namespace propagator::pde {

// Points on [-1, 1], in rising order, (n) in float64.
torch::Tensor chebyshev_nodes(int64_t n);  // cos(πj/(n-1)); one is 0
torch::Tensor gauss_points(int64_t n);     // zeros of Legendre's P_n
torch::Tensor radau_points(int64_t n);     // of P_(n-1) - P_n: the end 1 too

// What takes values of a polynomial at `nodes`, (N), to its values at
// `points`, (P), and to its derivative at the nodes, by the barycentric
// formula: (P, N) and (N, N).
torch::Tensor interpolation_matrix(const torch::Tensor& nodes,
                                   const torch::Tensor& points);
torch::Tensor differentiation_matrix(const torch::Tensor& nodes);

}  // namespace propagator::pde
