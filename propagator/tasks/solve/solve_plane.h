#pragma once

#include <optional>
#include <string>
#include <vector>

#include "propagator/pde/text/problem.h"
#include "propagator/report/field_maps.h"

namespace propagator::tasks {

// The centres of the `per_axis` cells along a variable, where tests are.
report::Axis centres_along(const pde::Problem& problem, int64_t variable,
                           int64_t per_axis);

// The plane in which the fields of a problem are drawn, over the test points:
// time goes to the right, or the first variable. Of three variables one is
// held, at S cells.
class SolvePlane {
 public:
  // None of fewer variables than two, or more than three. The problem must
  // outlive it.
  static std::optional<SolvePlane> of(const pde::Problem& problem,
                                      int64_t per_axis);

  report::Axis across() const {
    return centres_along(*problem_, across_, per_axis_);
  }
  report::Axis up() const { return centres_along(*problem_, up_, per_axis_); }
  double aspect() const;  // height over width
  // Values (N, K) at the test points as pictures (K S, R, C).
  torch::Tensor pictures(const torch::Tensor& values) const;
  // What is held at each of the S; one empty text if nothing is.
  std::vector<std::string> held_at() const;

 private:
  SolvePlane(const pde::Problem& problem, int64_t per_axis)
      : problem_(&problem), per_axis_(per_axis) {}

  const pde::Problem* problem_;
  int64_t per_axis_;
  int64_t up_ = 0, across_ = 1, held_ = -1;
  std::vector<int64_t> cells_ = {};
};

}  // namespace propagator::tasks
