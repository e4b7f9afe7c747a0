#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "propagator/pde/reference/classical_answer.h"
#include "propagator/pde/residual/problem_points.h"
#include "propagator/tasks/solve/solve_options.h"
#include "propagator/tasks/solve/test_grid.h"

namespace propagator::tasks {

// What a solution is tested against, at the points of a grid: fields that are
// given there, the exact solution, or one of a classical method.
class SolveReference {
 public:
  // What is free of each field.
  using Freedoms = std::vector<pde::Freedom>;

  SolveReference() = default;
  // At the centres of `eval.per_axis` cells along each variable. The problem
  // must outlive it.
  SolveReference(const pde::Problem& problem, const SolveEvalOptions& options,
                 Freedoms freedoms)
      : problem_(&problem),
        options_(options),
        freedoms_(std::move(freedoms)),
        grid_(TestGrid::centres(problem, options.per_axis)) {
    if (problem.region) rows_ = pde::rows_inside(problem, grid_.points());
  }
  // Fields (N, F) at the points of another grid.
  SolveReference(const pde::Problem& problem, const SolveEvalOptions& options,
                 Freedoms freedoms, TestGrid grid, const torch::Tensor& fields)
      : problem_(&problem),
        options_(options),
        freedoms_(std::move(freedoms)),
        grid_(std::move(grid)),
        found_(
            pde::Reference{.fields = without_free_means(fields), .error = 0}) {}

  const TestGrid& grid() const { return grid_; }
  // (N, D), of the grid, or those inside of a domain of shapes.
  torch::Tensor points() const;
  // Values (N, K) at the points as those at all of the grid, NaN outside.
  torch::Tensor on_grid(const torch::Tensor& values) const;
  // Fields (N, F) there without what the problem leaves free of them: where a
  // constant, as of a pressure, their mean; where a function of time, that at
  // each time.
  torch::Tensor without_free_means(const torch::Tensor& fields) const;
  // The solution there, so, if one is to be had; found once.
  const pde::Reference* find();
  // What a classical method needs for an error like ours; empty if none does.
  nlohmann::json classical(double error);
  // The variable that errors are followed along: a parameter, or else time, or
  // else the first one.
  int64_t followed() const;
  // Errors of fields (N, F) along it.
  nlohmann::json error_along(const torch::Tensor& answer,
                             const torch::Tensor& truth) const;

 private:
  const pde::Problem* problem_ = nullptr;
  SolveEvalOptions options_;
  Freedoms freedoms_;
  TestGrid grid_;
  torch::Tensor rows_;  // of the grid's points inside; undefined: all
  std::optional<pde::Reference> found_;
  std::string none_;  // why there is none
};

// Σ|error| / Σ|truth| and the same with squares, over points and fields; of a
// truth that is zero everywhere neither.
nlohmann::json relative_errors(const torch::Tensor& answer,
                               const torch::Tensor& truth);

}  // namespace propagator::tasks
