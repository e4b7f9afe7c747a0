#pragma once

#include <functional>
#include <map>
#include <string>

#include "propagator/core/config.h"
#include "propagator/train/descent_stop.h"
#include "propagator/train/lbfgs_history.h"
#include "propagator/train/line_loss.h"

namespace propagator::train {

struct LbfgsOptions {
  int64_t history = 100;
  int64_t iterations = 20;
  int64_t evaluations = 25;
  double lr = 1;
  double tolerance_gradient = 1e-9;
  double tolerance_change = 1e-12;

  void describe(config::Schema& schema);
};

// L-BFGS with a strong-Wolfe line search on the flat buffers: for a loss that
// is the same function at every call within a step (full batch).
//
// A step first evaluates the loss where the parameters are, so that between
// steps the function may change (new points, other weights), and then goes on
// for some iterations. Within a step the loss rises by no more than rounding
// does to it: in float32 slopes are still right where losses no longer are. So
// a search that fails first measures this noise and tries again with it; then
// it drops the history and tries the steepest descent once with a small step.
// If that fails too, the optimiser has stopped, and every later step returns at
// once. The parameters are then at the last point accepted, and so they are
// when the closure throws.
class Lbfgs {
 public:
  // The loss, and its gradient into parameters.gradients().
  using Closure = std::function<double()>;
  // The same, with the loss still where it was computed.
  using DeviceClosure = LineLoss::Closure;

  using Outcome = DescentOutcome;

  Lbfgs(const LbfgsOptions& options, FlatParameters& parameters);

  // Up to options.iterations iterations; none is begun after
  // options.evaluations evaluations (one line search may go beyond by its own).
  Outcome step(const Closure& closure);
  Outcome step(const DeviceClosure& closure);

  // All that a checkpoint needs, the counters too, to go on to the same bits;
  // the pairs are not copied. No gradient: a step evaluates it again. DataError
  // if the state is not one of these options and parameters. From that of
  // float32 a float64 one takes the counts, and goes on without a history.
  std::map<std::string, torch::Tensor> state() const;
  void restore(const std::map<std::string, torch::Tensor>& state);

  // Since the beginning.
  int64_t iterations() const { return iterations_; }
  int64_t evaluations() const { return line_.evaluations(); }
  DescentStop stop() const { return stop_; }

 private:
  void iterate(const DeviceClosure& closure);
  // A search along the direction; false if it found nothing lower.
  bool advance(const DeviceClosure& closure, double slope, double first_step);
  double steepest_step() const;

  LbfgsOptions options_;
  LineLoss line_;
  LbfgsHistory history_;
  int64_t iterations_ = 0;
  DescentStop stop_ = DescentStop::kNone;
};

}  // namespace propagator::train
