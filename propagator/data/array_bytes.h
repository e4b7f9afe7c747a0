#pragma once

#include <torch/types.h>

#include <optional>
#include <vector>

namespace propagator::data {

// The bytes of an array of the shape that a file claims; nothing if no tensor
// can have it: a negative size, too many dimensions, or more numbers than can
// be counted, be it beside a size of zero.
std::optional<uint64_t> array_bytes(const std::vector<int64_t>& shape,
                                    torch::ScalarType type);

}  // namespace propagator::data
