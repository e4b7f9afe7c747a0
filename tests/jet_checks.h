#pragma once

#include <torch/nn/module.h>

#include <functional>

#include "propagator/autodiff/jet.h"
#include "testing.h"

namespace propagator::testing {

// A network on jets: points (M; N, T, D) → fields (M; N, T, F), in which the
// tokens T of a window may see each other, but no window another.
using JetMap = std::function<autodiff::Jet(const autodiff::Jet&)>;

// The forward of a network or a layer that takes a jet alone.
template <class Net>
JetMap jet_map(Net& net) {
  return [&net](const autodiff::Jet& x) { return net.forward(x); };
}

// Where the derivatives of a network are looked at: all tokens of a window
// move together.
struct MovingPoints {
  torch::Tensor points;      // (N, T, D), float64
  torch::Tensor directions;  // (R, D)
};

// The value of the jet is that of a constant, and its derivatives to `order`
// are those of nested reverse mode.
::testing::AssertionResult derivatives_are_nested(const JetMap& f,
                                                  const MovingPoints& at,
                                                  int64_t order,
                                                  Tolerance tolerance);

// They are central differences of those one order lower, step 1e-6.
::testing::AssertionResult derivatives_are_differences(const JetMap& f,
                                                       const MovingPoints& at,
                                                       int64_t order,
                                                       Tolerance tolerance);

// The gradient, by every trained parameter of `module`, of the sum of squares
// of the derivatives of that order along the first direction is the one
// through nested reverse mode.
::testing::AssertionResult parameter_gradients_are_nested(
    const torch::nn::Module& module, const JetMap& f, const MovingPoints& at,
    int64_t order, Tolerance tolerance);

}  // namespace propagator::testing
