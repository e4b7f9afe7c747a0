#pragma once

#include <torch/types.h>

#include <vector>

namespace propagator::tasks {

// Last frequencies of the lower two of three spectral bands.
inline constexpr int64_t kLowBand = 4, kMiddleBand = 12;

// The largest frequency along any axis, of each coefficient of a full DFT over
// such nodes: (product of nodes), whole numbers.
torch::Tensor largest_frequency(const std::vector<int64_t>& nodes,
                                const torch::Device& device);

// Energy of fields (B, nodes…) at each frequency k = 0 … max n/2, the largest
// along any axis: E(k) = Σ |û|² / N² over coefficients of that k. By Parseval
// Σ E(k) = mean u². (B, K)
torch::Tensor energy_spectrum(const torch::Tensor& fields);

}  // namespace propagator::tasks
