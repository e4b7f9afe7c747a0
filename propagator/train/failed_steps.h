#pragma once

#include <cstdint>

namespace propagator::train {

// Steps in a row that came to nothing, of a method that works on all training
// cases. On the same cases the next one will too, and the method has stopped
// after a few; on new ones it need not, and more are borne.
class FailedSteps {
 public:
  // Before a step: its cases are others than those of the step before.
  void expect_new_cases() { on_new_cases_ = true; }
  bool are_on_new_cases() const { return on_new_cases_; }
  // After a step.
  void note(bool failed) {
    count_ = failed ? count_ + 1 : 0;
    too_many_ = count_ >= (on_new_cases_ ? kMostOnNewCases : kMost);
    on_new_cases_ = false;
  }
  bool are_too_many() const { return too_many_; }

  int64_t count() const { return count_; }
  void recall(int64_t count) { count_ = count; }

 private:
  static constexpr int64_t kMost = 3, kMostOnNewCases = 12;

  int64_t count_ = 0;
  bool on_new_cases_ = false, too_many_ = false;
};

}  // namespace propagator::train
