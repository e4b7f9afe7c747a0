#pragma once

#include "propagator/tasks/surrogate.h"

namespace propagator::tasks {

// Of a task that measures a trained model on validation cases before it is
// tested and used, such as how far the deviations that it predicts can be
// trusted. What was measured is kept with the run.
class Calibrated {
 public:
  virtual ~Calibrated() = default;

  // Measures it and uses it from then on; nothing where the model has nothing
  // to measure. Needs the task's data.
  virtual NamedTensors measure_calibration(torch::nn::Module& model) = 0;
  // Whether there is nothing to measure any more, or nothing at all.
  virtual bool is_calibrated() const = 0;
  // What was measured of the model that will be asked for. DataError if it does
  // not fit.
  virtual void use_calibration(const NamedTensors& measured) = 0;
};

}  // namespace propagator::tasks
