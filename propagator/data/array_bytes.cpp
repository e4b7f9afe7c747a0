#include "propagator/data/array_bytes.h"

#include <algorithm>

namespace propagator::data {

std::optional<uint64_t> array_bytes(const std::vector<int64_t>& shape,
                                    torch::ScalarType type) {
  constexpr size_t kMostDimensions = 64;  // that libtorch computes with
  if (shape.size() > kMostDimensions) return std::nullopt;
  // Strides are products of all sizes, a zero among them counted as one.
  auto strides = static_cast<int64_t>(c10::elementSize(type));
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0 ||
        __builtin_mul_overflow(strides, std::max<int64_t>(size, 1), &strides)) {
      return std::nullopt;
    }
    empty = empty || size == 0;
  }
  return empty ? 0 : static_cast<uint64_t>(strides);
}

}  // namespace propagator::data
