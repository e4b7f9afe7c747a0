#pragma once

#include <cstdint>
#include <optional>

#include "propagator/core/device.h"

namespace propagator {

// The most bytes of a GPU's memory that tensors took at once since
// `begin_peak_memory`; those that are there before count too. Nothing where
// libtorch does not tell.
void begin_peak_memory(const Runtime& runtime);
std::optional<int64_t> peak_memory(const Runtime& runtime);

}  // namespace propagator
