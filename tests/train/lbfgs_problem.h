#pragma once

#include <functional>

#include "propagator/train/lbfgs.h"

namespace propagator::train::lbfgs_problems {

using Function = std::function<torch::Tensor(const torch::Tensor&)>;

struct Point : torch::nn::Module {
  explicit Point(const torch::Tensor& start)
      : x(register_parameter("x", start.clone())) {}
  torch::Tensor x;
};

// A function to be minimised from a start.
struct Problem {
  Problem(Function function, const torch::Tensor& start)
      : f(std::move(function)), module(start), flat(module) {}

  torch::Tensor evaluate() {
    flat.gradients().zero_();
    const auto loss = f(module.x);
    loss.backward();
    return loss.detach();
  }
  Lbfgs::Closure closure() {
    return [this] { return evaluate().item<double>(); };
  }
  Lbfgs::DeviceClosure device_closure() {
    return [this] { return evaluate(); };
  }
  const torch::Tensor& x() { return flat.values(); }

  Function f;
  Point module;
  FlatParameters flat;
};

// Σ 100 (x_{i+1} - x_i²)² + (1 - x_i)², least at ones.
inline torch::Tensor rosenbrock(const torch::Tensor& x) {
  const auto a = x.slice(0, 0, -1), b = x.slice(0, 1);
  return (100 * (b - a * a).pow(2) + (1 - a).pow(2)).sum();
}

// The usual start, (-1.2, 1, -1.2, 1, ...).
inline torch::Tensor far_start(int64_t n,
                               torch::ScalarType type = torch::kFloat64) {
  auto x = torch::ones({n}, type);
  x.slice(0, 0, n, 2).fill_(-1.2);
  return x;
}

// Steps until it stops or `steps` are done; the last outcome.
inline Lbfgs::Outcome run(Lbfgs& optimizer, Problem& problem, int steps) {
  Lbfgs::Outcome outcome;
  for (int n = 0; n < steps && outcome.stop == DescentStop::kNone; ++n) {
    outcome = optimizer.step(problem.closure());
  }
  return outcome;
}

}  // namespace propagator::train::lbfgs_problems
