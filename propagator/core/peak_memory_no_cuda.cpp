#include "propagator/core/peak_memory.h"

namespace propagator {

void begin_peak_memory(const Runtime&) {}
std::optional<int64_t> peak_memory(const Runtime&) { return std::nullopt; }

}  // namespace propagator
