#pragma once

#include "propagator/core/observer.h"
#include "propagator/run/train.h"

namespace propagator::cli {

inline constexpr const char* kWatchHelp =
    "Show the training on a page in a browser of this machine; it says at "
    "which "
    "address";

// What `train` gives with the observer that it is to report to: this thread's,
// or one that shows the training of that folder on a page meanwhile.
run::Trained watched(bool watch, const std::filesystem::path& folder,
                     const std::function<run::Trained(Observer&)>& train);

}  // namespace propagator::cli
