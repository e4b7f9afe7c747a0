#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// The tokens of the detector lecture, of B events and S sensors, (B, S + 1, C):
//   token 0: E_0,   token s: E_s + offset_s + t_s w,
// from times (B, S), E (S + 1, C), w (C) and an offset (C) or (S, C).
// Differentiable once; on the CPU in one pass each way, for small events are
// mostly the calling of operations.
torch::Tensor sensor_tokens(const torch::Tensor& times,
                            const torch::Tensor& table,
                            const torch::Tensor& weight,
                            const torch::Tensor& offset);

// The same in plain operations: the reference, and for where there is no
// kernel or the times need a gradient.
torch::Tensor sensor_tokens_reference(const torch::Tensor& times,
                                      const torch::Tensor& table,
                                      const torch::Tensor& weight,
                                      const torch::Tensor& offset);

}  // namespace propagator::kernels
