#pragma once

#include <functional>

namespace propagator {

// Whether `work` ends, and not with an exception, in a copy of this process:
// for libraries that damaged input makes crash, loop or fill the memory. The
// copy may take a gigabyte and some seconds of computing, and does nothing to
// our memory. True where no copy can be made.
bool ends_well(const std::function<void()>& work);

}  // namespace propagator
