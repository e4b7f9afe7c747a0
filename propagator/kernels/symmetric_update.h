#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// A symmetric matrix H (n, n), changed in place by a sum of outer products
// that is symmetric, and then its product with a vector g (n):
//   H ← s H + Σ_k p_k q_kᵀ,   y = H g,
// of p and q (2, n). What counts of H is its lower triangle with the diagonal;
// what is above has no meaning, before or after. On the CPU, in float64, that
// is one pass over the triangle: H is larger than most caches, and takes longer
// to be read and written than to be computed with. Sums have a fixed order for
// any number of threads, and H does not depend on g.
torch::Tensor symmetric_update(torch::Tensor h, double s,
                               const torch::Tensor& p, const torch::Tensor& q,
                               const torch::Tensor& g);

// The same in plain operations, of which the upper triangle is a part: the
// meaning.
torch::Tensor symmetric_update_reference(torch::Tensor h, double s,
                                         const torch::Tensor& p,
                                         const torch::Tensor& q,
                                         const torch::Tensor& g);

// Writes the lower triangle into the upper one.
void mirror_lower(torch::Tensor h);

}  // namespace propagator::kernels
