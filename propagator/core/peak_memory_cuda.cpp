#include <c10/cuda/CUDACachingAllocator.h>

#include "propagator/core/peak_memory.h"

namespace propagator {

namespace allocator = c10::cuda::CUDACachingAllocator;

void begin_peak_memory(const Runtime& runtime) {
  if (runtime.device.is_cuda()) {
    allocator::resetPeakStats(runtime.device.index());
  }
}

std::optional<int64_t> peak_memory(const Runtime& runtime) {
  if (!runtime.device.is_cuda()) return std::nullopt;
  // The first entry is that of all pools together.
  return allocator::getDeviceStats(runtime.device.index())
      .allocated_bytes.front()
      .peak;
}

}  // namespace propagator
