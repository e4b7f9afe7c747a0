#pragma once

#include <cfenv>
#include <cstdint>
#include <vector>

#include "propagator/core/torch_compat.h"

namespace propagator::capi {

// While it lives this thread computes as the program does: with so many OpenMP
// threads (0: as many as it has), the default floating-point environment, so
// that no trap of the host's ends it and no rounding mode changes its bits, and
// without libtorch's warnings on stderr. Then all is as it was.
//
// Where the host has traps on, or rounds otherwise, OpenMP's other threads have
// inherited that from it, and are set and put back as well.
class HostScope {
 public:
  explicit HostScope(int64_t threads = 0);
  ~HostScope();
  HostScope(const HostScope&) = delete;
  HostScope& operator=(const HostScope&) = delete;

 private:
  struct Worker {
    bool held = false;
    std::fenv_t environment;
  };
  void hold_workers();
  void release_workers();

  SilentWarnings warnings_;
  int threads_;
  std::fenv_t environment_;
  std::vector<Worker> workers_;  // empty where they need nothing
};

// Whether a floating-point exception would raise SIGFPE in this thread.
bool traps_are_on();

}  // namespace propagator::capi
