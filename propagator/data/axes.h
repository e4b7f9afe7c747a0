#pragma once

#include <torch/types.h>

#include <vector>

namespace propagator::data {

// The same numbers with all axes the other way round: of a language that counts
// the first index fastest, or one that does not.
inline torch::Tensor with_axes_reversed(const torch::Tensor& array) {
  std::vector<int64_t> order;
  for (int64_t d = array.dim(); d > 0; --d) order.push_back(d - 1);
  return array.permute(order);
}

}  // namespace propagator::data
