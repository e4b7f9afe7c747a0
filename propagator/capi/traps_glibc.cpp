#include <cfenv>

#include "propagator/capi/host_scope.h"

namespace propagator::capi {

bool traps_are_on() { return fegetexcept() != 0; }

}  // namespace propagator::capi
