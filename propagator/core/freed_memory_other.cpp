#include "propagator/core/freed_memory.h"

namespace propagator {

void keep_freed_memory() {}  // only glibc can be told

}  // namespace propagator
