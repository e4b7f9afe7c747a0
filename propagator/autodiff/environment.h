#pragma once

#include <functional>
#include <vector>

#include "propagator/autodiff/derivative.h"
#include "propagator/autodiff/jet.h"

namespace propagator::autodiff {

// What the names of a formula stand for when it is evaluated: a jet for each
// variable, and one for each derivative of a field that it names, or for the
// sum of its second derivatives. Jets of plain values are constants; shapes
// broadcast.
struct Environment {
  std::vector<Jet> variables;
  std::function<Jet(const Derivative&)> field;
  std::function<Jet(int64_t field)> second_order_sum = {};
  std::vector<torch::Tensor> unknowns = {};  // one for each, broadcast
};

// The D variables of points (M; …, D), each (M; …).
std::vector<Jet> coordinates(const Jet& points);

}  // namespace propagator::autodiff
