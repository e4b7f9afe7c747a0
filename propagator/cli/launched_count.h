#pragma once

namespace propagator::cli {

// How many processes the launcher of this one says that it has started; 1 if
// there is none.
int launched_count();

}  // namespace propagator::cli
