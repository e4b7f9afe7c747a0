#pragma once

#include <optional>
#include <string>
#include <vector>

#include "propagator/tasks/solve/test_grid.h"

namespace propagator::tasks {

// The plane in which fields are drawn, over the test points: time goes to the
// right, or the first variable. Of three variables one is held, at S places.
class SolvePlane {
 public:
  // None of fewer variables than two, or more than three. `time`: the variable
  // that is time, or -1.
  static std::optional<SolvePlane> of(const TestGrid& grid, int64_t time);

  report::Axis across() const { return grid_.axis(across_); }
  report::Axis up() const { return grid_.axis(up_); }
  double aspect() const;  // height over width
  // Values (N, K) at the test points as pictures (K S, R, C).
  torch::Tensor pictures(const torch::Tensor& values) const;
  // What is held at each of the S; one empty text if nothing is.
  std::vector<std::string> held_at() const;

 private:
  SolvePlane(TestGrid grid, int64_t time)
      : grid_(std::move(grid)), time_(time) {}

  TestGrid grid_;
  int64_t time_;
  int64_t up_ = 0, across_ = 1, held_ = -1;
  std::vector<int64_t> places_ = {};  // along what is held
};

}  // namespace propagator::tasks
