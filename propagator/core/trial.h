#pragma once

#include <cstdint>
#include <functional>

namespace propagator {

struct TrialLimits {
  uint64_t bytes = uint64_t{1} << 30;  // more than this process has
  unsigned computing_seconds = 5;
  unsigned seconds = 60;  // with what it waits for: a slow disk, a held lock
};

// Whether `work` ends within the limits, and not with an exception, in a copy
// of this process: for libraries that damaged input makes crash, loop or fill
// the memory. The copy does nothing to our memory. True where no copy can be
// made.
bool ends_well(const std::function<void()>& work,
               const TrialLimits& limits = {});

}  // namespace propagator
