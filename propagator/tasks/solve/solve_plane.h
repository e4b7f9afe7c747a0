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
  // that is time, or -1, as `parameter` may be. Of three variables the
  // parameter is held, or else time, or else the last one, at `most` places,
  // first and last included.
  static std::optional<SolvePlane> of(const TestGrid& grid, int64_t time,
                                      int64_t parameter = -1, int64_t most = 3);

  report::Axis across() const { return grid_.axis(across_); }
  report::Axis up() const { return grid_.axis(up_); }
  double aspect() const;  // height over width
  // Values (N, K) at the test points as pictures (K S, R, C).
  torch::Tensor pictures(const torch::Tensor& values) const;
  int64_t held() const { return held_; }  // the variable, or -1
  // What is held at each of the S; one empty text if nothing is.
  std::vector<std::string> held_at() const;
  std::vector<double> held_values() const;  // one 0 if nothing is
  // Which of some points (M, D) are near each of the S, at most `reach` from
  // what is held, as places across and up, (n, 2) each; all if nothing is held.
  std::vector<torch::Tensor> near(const torch::Tensor& points,
                                  double reach) const;

 private:
  SolvePlane(TestGrid grid, int64_t time)
      : grid_(std::move(grid)), time_(time) {}

  TestGrid grid_;
  int64_t time_;
  int64_t up_ = 0, across_ = 1, held_ = -1;
  std::vector<int64_t> places_ = {};  // along what is held
};

}  // namespace propagator::tasks
