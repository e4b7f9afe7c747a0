#include "propagator/train/line_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "propagator/core/error.h"

namespace propagator::train {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr double kShrink = 0.1;  // from a value that is not finite
constexpr double kMargin = 0.1;  // nearest to an end of the interval
constexpr double kSlow = 0.66;   // left of an interval: slow, if more
constexpr double kHalf = 0.5;
constexpr double kLeastGrowth = 1.1;   // of the step, from the point before
constexpr double kLargestGrowth = 10;  // the last one

// Where the cubic with the values and slopes of `a` and `b` has its minimum, as
// t in a + t (b - a); NaN if it has none. With h = b - a it is
//   φ(a) + φ'(a) h t + A t² + B t³.
double cubic_minimum(const LinePoint& a, const LinePoint& b) {
  const double h = b.step - a.step, rise = b.value - a.value;
  const double slope_a = a.slope * h, slope_b = b.slope * h;
  const double A = 3 * rise - 2 * slope_a - slope_b;
  const double B = slope_a + slope_b - 2 * rise;
  // The root where the second derivative is positive, in the form that adds
  // numbers of the same sign. A negative radicand gives NaN.
  const double root = std::sqrt(A * A - 3 * B * slope_a);
  return A > 0 ? -slope_a / (A + root) : (root - A) / (3 * B);
}

class Search {
 public:
  Search(const LinePoint& start, const std::function<LinePoint(double)>& f,
         const LineOptions& options)
      : start_(start),
        lowest_(start),
        evaluate_(f),
        options_(options),
        noise_(options.noise) {}

  LineResult run(double step) {
    if (!std::isfinite(start_.value) || !(start_.slope < 0)) {
      return best("the direction does not descend");
    }
    LinePoint low = start_;
    while (evaluations_ < options_.evaluations) {
      const LinePoint p = at(step);
      if (is_end(p)) return end(p);
      if (is_too_high(p, low)) return narrow(low, p);
      if (p.slope >= 0) return narrow(p, low);
      const double t = minimum(low, p);
      // A cubic that has no minimum ahead says: far.
      const double growth =
          t > 1 ? std::clamp(t, kLeastGrowth, kLargestGrowth) : kLargestGrowth;
      step = low.step + growth * (p.step - low.step);
      low = p;
    }
    return best("the value still falls after the last evaluation allowed");
  }

 private:
  LinePoint at(double step) {
    ++evaluations_;
    LinePoint p = evaluate_(step);
    p.step = step;
    if (!std::isfinite(p.value) || !std::isfinite(p.slope)) {
      return {step, kInfinity, 0};
    }
    if (p.value < lowest_.value) lowest_ = p;
    return p;
  }

  double enough(const LinePoint& p) const {
    return start_.value + options_.c1 * p.step * start_.slope;
  }
  bool is_level(const LinePoint& p) const {
    return std::abs(p.slope) <= -options_.c2 * start_.slope;
  }
  bool is_wolfe(const LinePoint& p) const {
    return p.value <= enough(p) && is_level(p);
  }
  // The value says nothing here, but the slope does.
  bool is_level_in_noise(const LinePoint& p) const {
    return p.value - start_.value <= noise_ &&
           start_.value - enough(p) <= noise_ && is_level(p);
  }
  bool is_end(const LinePoint& p) const {
    return is_wolfe(p) || is_level_in_noise(p);
  }
  LineResult end(const LinePoint& p) const {
    if (is_wolfe(p)) {
      return {p, evaluations_, true, "the strong Wolfe conditions hold"};
    }
    return {p, evaluations_, false, "the change left is rounding noise"};
  }
  LineResult best(const std::string& reason) const {
    return {lowest_, evaluations_, false, reason};
  }
  bool is_too_high(const LinePoint& p, const LinePoint& low) const {
    return p.value > enough(p) + noise_ || p.value > low.value + noise_;
  }

  // Narrows an interval that holds a good step: `low` is the better end, and
  // falls towards `high`.
  LineResult narrow(LinePoint low, LinePoint high) {
    int slow = 0;  // in a row; after two the interval is halved
    while (evaluations_ < options_.evaluations) {
      const double width = high.step - low.step;
      if (std::abs(width) <= std::numeric_limits<double>::epsilon() *
                                 std::max(low.step, high.step)) {
        return best("the interval is as narrow as rounding allows");
      }
      const LinePoint p =
          at(low.step + (slow == 2 ? kHalf : fraction(low, high)) * width);
      if (is_end(p)) return end(p);
      if (is_too_high(p, low)) {
        high = p;
      } else {
        if (p.slope * width >= 0) high = low;
        low = p;
      }
      const bool shrank =
          std::abs(high.step - low.step) <= kSlow * std::abs(width);
      slow = shrank || slow == 2 ? 0 : slow + 1;
    }
    return best("no step was good enough among the evaluations allowed");
  }

  // As t in a + t (b - a). Between values that differ by noise only the slopes
  // are interpolated.
  double minimum(const LinePoint& a, const LinePoint& b) const {
    return std::abs(b.value - a.value) <= noise_ ? a.slope / (a.slope - b.slope)
                                                 : cubic_minimum(a, b);
  }

  // How far from `low` to `high` to look next.
  double fraction(const LinePoint& low, const LinePoint& high) const {
    if (!std::isfinite(high.value)) return low.step == 0 ? kShrink : kHalf;
    const double t = minimum(low, high);
    return t > 0 && t < 1 ? std::clamp(t, kMargin, 1 - kMargin) : kHalf;
  }

  LinePoint start_, lowest_;
  const std::function<LinePoint(double)>& evaluate_;
  LineOptions options_;
  double noise_;
  int64_t evaluations_ = 0;
};

}  // namespace

LineResult search(const LinePoint& start, double first_step,
                  const std::function<LinePoint(double)>& evaluate,
                  const LineOptions& options) {
  if (!(first_step > 0) || !std::isfinite(first_step) || start.step != 0) {
    throw UsageError(
        fmt::format("[line_search] expected a start at step 0 and a positive "
                    "first step, got {} and {}",
                    start.step, first_step));
  }
  return Search(start, evaluate, options).run(first_step);
}

double noise_of(std::span<const double> values) {
  constexpr size_t kOrder = 4;
  if (values.size() <= kOrder) {
    throw UsageError(
        fmt::format("[noise_of] expected at least {} values, got {}",
                    kOrder + 1, values.size()));
  }
  double squares = 0;
  const size_t count = values.size() - kOrder;
  for (size_t n = 0; n < count; ++n) {
    const double* v = values.data() + n;
    const double difference = v[0] - 4 * v[1] + 6 * v[2] - 4 * v[3] + v[4];
    squares += difference * difference;
  }
  // Independent errors add up to 1 + 16 + 36 + 16 + 1 variances.
  return std::sqrt(squares / (70.0 * static_cast<double>(count)));
}

}  // namespace propagator::train
