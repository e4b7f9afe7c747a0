#pragma once

#include <torch/types.h>

#include <functional>

namespace propagator::physics {

// A step of the exponential Runge-Kutta method of fourth order for
//   dv/dt = L v + N(v)
// with a diagonal real L: exact where N is 0, whatever the step, so that stiff
// diffusion does not limit it. Its weights are made of
//   φ_1(z) = (e^z - 1)/z,  φ_{n+1}(z) = (φ_n(z) - 1/n!)/z.
class Etdrk4 {
 public:
  using Nonlinear = std::function<torch::Tensor(const torch::Tensor&)>;

  // `linear` is any shape that broadcasts to v; its device is that of v, and
  // the weights have v's real type.
  Etdrk4(const torch::Tensor& linear, double step, torch::ScalarType type);

  torch::Tensor step(const torch::Tensor& v, const Nonlinear& n) const;

 private:
  torch::Tensor whole_, half_, q_, f1_, f2_, f3_;
};

// φ_n of real z in float64, n from 1 to 3, without cancellation near 0.
torch::Tensor phi(int64_t n, const torch::Tensor& z);

}  // namespace propagator::physics
