#pragma once

#include <chrono>

namespace propagator {

// Seconds since it was made, or last started.
class Stopwatch {
 public:
  void start() { start_ = Clock::now(); }
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace propagator
