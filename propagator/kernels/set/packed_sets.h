#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// The R tokens of B sets that are no padding, set after set, each a row of a
// matrix: a layer's work is then R rows and not B · T.
struct PackedSets {
  int64_t sets, tokens;  // B, T
  torch::Tensor begin;  // (B + 1) int64: set b has rows begin[b] … begin[b + 1]
  torch::Tensor place;  // (R) int64: b T + t

  int64_t rows() const { return place.size(0); }
};

// By what is padding, (B, T) bool on the CPU.
PackedSets pack_sets(const torch::Tensor& padding);

}  // namespace propagator::kernels
