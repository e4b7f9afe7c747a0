#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace propagator::train {

// A function φ seen along a line: the step, φ(step) and φ'(step).
struct LinePoint {
  double step = 0, value = 0, slope = 0;
};

struct LineOptions {
  double c1 = 1e-4;
  double c2 = 0.9;
  int64_t evaluations = 25;  // at most
  double noise = 0;  // values that differ by no more may differ by rounding
};

struct LineResult {
  LinePoint point;          // of step 0 if no lower one was found
  int64_t evaluations = 0;  // how many were used
  bool wolfe = false;
  std::string reason;  // why it ended, in a sentence
};

// Looks for a step with the strong Wolfe conditions
//   φ(a) ≤ φ(0) + c1 a φ'(0)   and   |φ'(a)| ≤ c2 |φ'(0)|:
// grows the step until an interval must hold one, then narrows the interval at
// the minima of cubics, as textbooks have it. A value or slope that is not
// finite counts as +∞. Where the decrease to be expected is below the noise, a
// good slope and a value above the start's by no more than the noise will do
// (the approximate Wolfe conditions); `wolfe` is then false.
//
// `start` is φ at step 0. What is returned is `start`, the last point evaluated
// or the lowest one: a caller who keeps the gradients of these three has the
// one it needs.
LineResult search(const LinePoint& start, double first_step,
                  const std::function<LinePoint(double)>& evaluate,
                  const LineOptions& options = {});

// The standard deviation of what rounding adds to a smooth function, from its
// values at five or more places equally far apart: the fourth differences of
// the smooth part vanish, those of noise do not (Hamming's table).
double noise_of(std::span<const double> values);

}  // namespace propagator::train
