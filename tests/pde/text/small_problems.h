#pragma once

#include "propagator/pde/text/problem.h"

namespace propagator::testing {

// A string of two fixed ends, with its exact solution.
inline pde::ProblemText wave() {
  return {.domain = {"x in [0, 1]", "t in [0, 2*pi]"},
          .fields = {"u"},
          .parameters = {"c = 2", "k = c*pi"},
          .equations = {"u_tt = c^2*u_xx"},
          .conditions = {"at t=0: u = sin(pi*x)", "at t=0: u_t = 0",
                         "on boundary: u = 0"},
          .exact = {"u = sin(pi*x)*cos(k*t)"}};
}

// A front that steepens on a ring.
inline pde::ProblemText burgers() {
  return {.domain = {"x in [-1, 1]", "t in [0, 1]"},
          .fields = {"u"},
          .equations = {"u_t + u*u_x - (0.01/pi)*u_xx"},
          .conditions = {"at t=0: u = -sin(pi*x)", "periodic x"}};
}

}  // namespace propagator::testing
