#include "propagator/capi/host_scope.h"

namespace propagator::capi {

// This C library cannot switch them on.
bool traps_are_on() { return false; }

}  // namespace propagator::capi
