#pragma once

#include <optional>
#include <vector>

#include "propagator/pde/residual/condition_value.h"

namespace propagator::pde {

// The form u = G + D N of a field that meets some of its conditions whatever
// the network N answers. D is zero where they hold,
//   D = τᵏ Π d(s),   d = 4 s (1 − s), or s or 1 − s of one end alone,
// with τ and s the shares of time and of each other variable's interval that
// lie behind, and k = 1, or 2 if u_t is given too. G has the values: f + (t −
// t₀) g to begin with, and then for each variable with faces
//   G ← G + (1 − s) (a − G at the low end) + s (b − G at the high end),
// which keeps what G met before where edges agree.
class HardForm {
 public:
  struct Time {
    int64_t variable = -1;
    Interval interval = {};
  };
  // Values at the ends of a variable, as far as they are given.
  struct Axis {
    int64_t variable = 0;
    Interval interval = {};
    std::optional<ConditionValue> low = {}, high = {};
    // Whether G has that value there before the axis corrects it.
    bool low_is_met = false, high_is_met = false;
  };

  HardForm() = default;
  explicit HardForm(Time time) : time_(time) {}

  bool empty() const { return initial_.empty() && axes_.empty(); }
  // f, and g behind it if that is given.
  void set_initial(std::vector<ConditionValue> values) {
    initial_ = std::move(values);
  }
  // Adds the value at an end of an axis, if that agrees with what is given
  // before where both hold; the axes come one after the other.
  bool add_face(const Problem& problem, int64_t variable, double at,
                const ConditionValue& value);

  // G and D at the coordinates of points, with their derivatives.
  Jet values(const std::vector<Jet>& variables) const {
    return values(variables, axes_.size());
  }
  Jet distance(const std::vector<Jet>& variables) const {
    return distance(variables, time_.interval, initial_order());
  }
  // D with another interval of time, and another k.
  Jet distance(const std::vector<Jet>& variables, const Interval& time,
               int64_t order) const;
  int64_t initial_order() const { return std::ssize(initial_); }  // k
  bool has_faces() const { return !axes_.empty(); }

 private:
  // With the first axes alone.
  Jet values(const std::vector<Jet>& variables, size_t axes) const;
  Jet first_values(const std::vector<Jet>& variables) const;
  // What the value at an end of a variable is above G of the first axes there.
  Jet missing(const std::vector<Jet>& variables, size_t axes, int64_t variable,
              double end, const ConditionValue& value) const;

  Time time_;
  std::vector<ConditionValue> initial_;
  std::vector<Axis> axes_;
};

}  // namespace propagator::pde
