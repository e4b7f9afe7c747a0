#pragma once

#include <signal.h>

namespace propagator::cli {

// While it lives, the first SIGINT or SIGTERM only asks to stop; the next one
// ends the process at once with 128 + its number. One within 0.2 s of the first
// is the same request: timeout(1) signals its child and then the child's group.
// Afterwards the handlers that were there before are back.
class StopSignals {
 public:
  // `note` is what the first one prints; it must stay.
  explicit StopSignals(const char* note = kAfterThisStep);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The number of the signal that asked, or 0.
  static int requested();

  static constexpr const char* kAfterThisStep =
      "\nstopping after this step; once more stops at once\n";

 private:
  struct sigaction interrupt_before_, terminate_before_;
};

}  // namespace propagator::cli
