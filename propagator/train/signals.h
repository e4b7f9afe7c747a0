#pragma once

namespace propagator::train {

// While it lives, the first SIGINT or SIGTERM only asks to stop; the second
// ends the process at once with 128 + its number.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The number of the signal that asked, or 0.
  static int requested();
};

}  // namespace propagator::train
