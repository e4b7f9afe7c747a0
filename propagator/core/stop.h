#pragma once

#include "propagator/core/error.h"
#include "propagator/core/observer.h"

namespace propagator {

// For long work that keeps nothing of what it has done so far: ends it with
// exit code 75 if this thread's observer is asked to stop.
inline void expect_no_stop() {
  if (!observer().stop_requested()) return;
  throw RuntimeError(ExitCode::kStopped, "stopped on request",
                     "nothing was written");
}

}  // namespace propagator
