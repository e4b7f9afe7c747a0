#pragma once

#include <functional>
#include <limits>
#include <optional>

#include "propagator/train/flat_parameters.h"

namespace propagator::train {

// The loss over the flat buffers, seen along lines: what methods with a line
// search share. It is the same function at every call within a step (full
// batch).
//
// Within a step the loss rises by no more than rounding does to it: in float32
// slopes are still right where losses no longer are, and a search that failed
// can measure this noise and be tried again with it. The parameters are always
// at the last point accepted when a call returns, and so they are when the
// closure throws.
class LineLoss {
 public:
  // Evaluates the loss at parameters.values() and sets parameters.gradients()
  // (zeroing them first is the closure's part). The loss is still where it was
  // computed (a scalar): it is read together with the slope, one wait for each
  // evaluation.
  using Closure = std::function<torch::Tensor()>;

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
  // How far a search went, from which loss.
  struct Advance {
    double step, loss_before;
  };

  // `where`: who asks, for an error about parameters of another type than
  // float32 and float64.
  LineLoss(FlatParameters& parameters, const char* where);

  // Evaluates where the parameters are. False if that is not finite: `now` is
  // then what it was.
  bool start(const Closure& closure);
  // Here a line begins, along what is then put into `direction`.
  void set_origin();
  // A search along the direction; nothing, with the parameters back at the
  // origin, if it found nothing lower.
  std::optional<Advance> advance(const Closure& closure, double slope,
                                 double first_step);
  // Looks along the direction; true if there is more noise than was known.
  bool finds_noise(const Closure& closure);

  const Reading& now() const { return now_; }  // at the parameters
  // (n): where the line begins, its gradient and direction.
  const torch::Tensor& origin() const { return origin_; }
  const torch::Tensor& gradient() const { return gradient_; }
  torch::Tensor& direction() { return direction_; }
  // Of that line, to where the parameters are now: the difference of the
  // rounded parameters, not step · direction, of which float32 rounds much away
  // near the end; and that of the gradients.
  torch::Tensor moved() const { return parameters_.values() - origin_; }
  torch::Tensor bent() const { return parameters_.gradients() - gradient_; }

  bool saw_finite() const { return saw_finite_; }  // the last search did
  int64_t evaluations() const { return evaluations_; }
  double root_noise() const { return root_noise_; }
  // What a checkpoint knows of `now`, and of the rest.
  void recall(double loss, double norm, int64_t evaluations);
  void recall_noise(double root_noise) { root_noise_ = root_noise; }

 private:
  Reading evaluate(const Closure& closure);
  // At this step along the direction.
  Reading look(const Closure& closure, double step);
  void back_to_origin();
  double noise() const;  // how far rounding may move the loss

  FlatParameters& parameters_;
  torch::Tensor origin_, gradient_, direction_;
  torch::Tensor lowest_gradient_;  // of the lowest point that a search has seen
  Reading now_;
  bool saw_finite_ = true;
  double root_noise_ = 0;  // the noise found, of a loss of 1
  int64_t evaluations_ = 0;
};

}  // namespace propagator::train
