#pragma once

#include <functional>
#include <memory>

#include "propagator/core/device.h"

namespace propagator {

// Device work that is the same at every call, as one CUDA graph. The first
// calls run it as it is, so that libraries set themselves up; then it is
// captured, and from there on replayed: the host launches it whole.
class DeviceGraph {
 public:
  // `work` enqueues to the current stream and reads nothing back.
  explicit DeviceGraph(std::function<void()> work);
  ~DeviceGraph();

  void run();
  // The work is another one from now on: what was captured is given up.
  void forget();
  // Whether this build and device can.
  static bool possible(const Runtime& runtime);

 private:
  struct Captured;
  std::function<void()> work_;
  int calls_ = 0;
  std::unique_ptr<Captured> captured_;
};

}  // namespace propagator
