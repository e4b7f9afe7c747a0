#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>

#include "propagator/core/config.h"
#include "propagator/core/device.h"
#include "propagator/train/flat_parameters.h"
#include "propagator/train/lbfgs_history.h"

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

// Why an optimiser stopped for good; kNone: it did not.
enum class LbfgsStop {
  kNone,
  kGradient,
  kChange,
  kLineSearch,
  kNotDescent,
  kNotFinite,
  kTooLarge
};
// A sentence.
// `precision`: of the products that the loss is made of.
std::string reason(LbfgsStop stop, Precision precision = Precision::kFloat32);

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
  // Evaluates the loss at parameters.values() and sets parameters.gradients()
  // (zeroing them first is the closure's part).
  using Closure = std::function<double()>;
  // The same, with the loss still where it was computed (a scalar): it is then
  // read together with the slope, one wait for each evaluation.
  using DeviceClosure = std::function<torch::Tensor()>;

  struct Outcome {
    double loss = 0;
    double gradient_norm = 0;
    int64_t iterations = 0, evaluations = 0;  // of this step
    LbfgsStop stop = LbfgsStop::kNone;
  };

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
  int64_t evaluations() const { return evaluations_; }
  LbfgsStop stop() const { return stop_; }

 private:
  // What one evaluation says, read back at once.
  struct Reading {
    double loss = std::numeric_limits<double>::quiet_NaN();
    double slope = 0;              // g·d
    double sum = 0;                // Σ |g_i|
    double norm = 0;               // |g|
    double weighted = 0;           // Σ |x_i g_i|
    double largest = 0;            // max |g_i|
    double largest_direction = 0;  // max |d_i|
    bool is_finite() const;
  };
  Reading evaluate(const DeviceClosure& closure);
  // At this step along direction_. A closure that throws leads back to origin_.
  Reading look(const DeviceClosure& closure, double step);
  void iterate(const DeviceClosure& closure);
  // A search along direction_; false, with the parameters back at origin_, if
  // it found nothing lower.
  bool advance(const DeviceClosure& closure, double slope, double first_step);
  // Looks along direction_; true if there is more noise than was known.
  bool finds_noise(const DeviceClosure& closure);
  void back_to_origin();
  // `slope`: where the step began.
  void accept(const Reading& reading, double step, double slope);
  double steepest_step() const;
  double noise() const;  // how far rounding may move the loss

  LbfgsOptions options_;
  FlatParameters& parameters_;
  LbfgsHistory history_;
  // (n): where an iteration begins, its gradient and direction, the gradient of
  // the lowest point that its search has seen.
  torch::Tensor origin_, gradient_, direction_, lowest_gradient_;
  Reading now_;             // at the parameters
  bool saw_finite_ = true;  // the last search did
  double root_noise_ = 0;   // the noise found, of a loss of 1
  int64_t iterations_ = 0, evaluations_ = 0;
  LbfgsStop stop_ = LbfgsStop::kNone;
};

}  // namespace propagator::train

namespace propagator::config {

template <>
struct Names<train::LbfgsStop> {
  using enum train::LbfgsStop;
  static constexpr std::pair<train::LbfgsStop, const char*> all[] = {
      {kNone, "none"},
      {kGradient, "gradient"},
      {kChange, "change"},
      {kLineSearch, "line-search"},
      {kNotDescent, "not-descent"},
      {kNotFinite, "not-finite"},
      {kTooLarge, "too-large"}};
};

}  // namespace propagator::config
