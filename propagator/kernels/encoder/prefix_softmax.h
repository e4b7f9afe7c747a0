#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// Softmax over the P visible keys for each token and head, in place. The
// scores (N, P · H) hold key by key the heads side by side, so that H threads
// or lanes work on neighbours.
void prefix_softmax(torch::Tensor scores, int64_t heads);

// From the weights w that it gave and their gradient, in place of the latter:
//   dw ← w (dw - Σ_p dw w).
void prefix_softmax_backward(torch::Tensor dw, const torch::Tensor& w,
                             int64_t heads);

}  // namespace propagator::kernels
