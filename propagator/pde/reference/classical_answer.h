#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "propagator/pde/text/problem.h"

namespace propagator::pde {

// The fields at some points, (N, F) in float64, to measure errors against.
struct Reference {
  torch::Tensor fields;
  double error;  // relative L2, of a numerical one; 0 of an exact one
  // Conditions that a numerical one is without: more than it takes.
  std::vector<std::string> left_out = {};
};

// The exact solution at points (N, D) or, where a problem has none, one of
// collocation, so fine that finer ones differ by `tolerance` at most, or the
// best that is found in about `seconds`. NumericalError if that is far off
// (1e-3), or there is none at all; UsageError as of solve_spectrally.
Reference reference_at(const pde::Problem& problem, const torch::Tensor& points,
                       double tolerance = 1e-6, double seconds = 60);

// What a classical method needs for an error: collocation, coarse at first and
// then finer by that variable, marched or not, which helps more.
struct ClassicalAnswer {
  double error;    // relative L2, with the reference's own added
  double seconds;  // of the solution, without the search for its size
  int64_t unknowns;
  std::string description;  // "4 elements of 16 points by x, …"
};

// The first answer with an error of `target` at most or, if that takes more
// than about `seconds` to find, the best until then. A target below twice the
// reference's error is raised to that. Errors as above.
ClassicalAnswer classical_answer(const pde::Problem& problem,
                                 const torch::Tensor& points,
                                 const Reference& reference, double target,
                                 double seconds = 60);

}  // namespace propagator::pde
