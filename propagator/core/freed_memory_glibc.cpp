#include <malloc.h>

#include "propagator/core/freed_memory.h"

namespace propagator {

void keep_freed_memory() {
  mallopt(M_MMAP_MAX, 0);         // no allocation has pages of its own
  mallopt(M_TRIM_THRESHOLD, -1);  // and the heap does not shrink
}

}  // namespace propagator
