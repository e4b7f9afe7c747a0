#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "propagator/pde/reference/classical_answer.h"
#include "propagator/tasks/solve/solve_options.h"

namespace propagator::tasks {

// What a solution is tested against, at the centres of cells, `eval.per_axis`
// along each variable: the exact solution, or one of a classical method.
class SolveReference {
 public:
  SolveReference() = default;
  // The problem must outlive it.
  SolveReference(const pde::Problem& problem, const SolveEvalOptions& options)
      : problem_(&problem), options_(options) {}

  torch::Tensor points() const;  // (N, D)
  // The solution there, if one is to be had; found once.
  const pde::Reference* find();
  // What a classical method needs for an error like ours; empty if none does.
  nlohmann::json classical(double error);
  // Errors of fields (N, F) along the variable that a reader follows: time, or
  // the first one.
  nlohmann::json error_along(const torch::Tensor& answer,
                             const torch::Tensor& truth) const;

 private:
  const pde::Problem* problem_ = nullptr;
  SolveEvalOptions options_;
  std::optional<pde::Reference> found_;
  std::string none_;  // why there is none
};

// Σ|error| / Σ|truth| and the same with squares, over points and fields; of a
// truth that is zero everywhere neither.
nlohmann::json relative_errors(const torch::Tensor& answer,
                               const torch::Tensor& truth);

}  // namespace propagator::tasks
