#pragma once

#include <functional>
#include <memory>

#include "propagator/core/device.h"

namespace propagator::train {

// Device work that is the same at every call, as one CUDA graph. The first
// calls run it as it is, so that libraries set themselves up; then it is
// captured, and from there on replayed: the host launches it whole.
class StepGraph {
 public:
  // `work` enqueues to the current stream and reads nothing back.
  explicit StepGraph(std::function<void()> work);
  ~StepGraph();

  void run();
  // Whether this build and device can.
  static bool possible(const Runtime& runtime);

 private:
  struct Captured;
  std::function<void()> work_;
  int calls_ = 0;
  std::unique_ptr<Captured> captured_;
};

}  // namespace propagator::train
