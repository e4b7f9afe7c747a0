#pragma once

#include <memory>
#include <string>

#include "propagator/train/descent_stop.h"
#include "propagator/train/step.h"
#include "propagator/train/train_options.h"

namespace propagator::train {

// One outer iteration of a method that works on the loss of all training cases
// at once: L-BFGS, Broyden's method, Levenberg-Marquardt.
class FullStep {
 public:
  virtual ~FullStep() = default;

  virtual void run() = 0;
  virtual StepRecord read() const = 0;
  // What the last one came to.
  virtual const DescentOutcome& outcome() const = 0;

  // Whether the last one found nothing lower. The next may then be told that
  // its cases are others.
  virtual bool failed() const { return false; }
  virtual void expect_new_cases() {}
  // Whether it has stopped for good, and why.
  virtual bool stopped() const = 0;
  virtual std::string why() const = 0;

  // All that a checkpoint needs beside the parameters to go on to the same
  // bits.
  virtual NamedTensors state() const = 0;
  virtual void restore(const NamedTensors& state) = 0;
};

// The method that the options name, with cases in parts of `batch`; null for
// one that takes batches. ConfigError if it cannot train this model.
std::unique_ptr<FullStep> make_full_step(
    Trainable& task, std::shared_ptr<torch::nn::Module> model,
    FlatParameters& parameters, const TrainOptions& options, int64_t batch,
    const Runtime& runtime);

}  // namespace propagator::train
