#pragma once

#include <nlohmann/json.hpp>

#include "propagator/report/table.h"

namespace propagator::explain {

// The sinusoidal positional encoding of positions 0 … positions-1 in `dims`
// features (nn::interleaved_encoding), as a table of four digits. As in the
// heat-plate paper's section 2.7 the features run from the last, the slowest,
// on the left to the first, as digits of a number do. UsageError if `dims` is
// odd, or either is out of bounds.
report::Table encoding_table(int64_t positions, int64_t dims);

// The same numbers in full, `encodings` by position and then by feature from 0
// on.
nlohmann::json encoding_numbers(int64_t positions, int64_t dims);

}  // namespace propagator::explain
