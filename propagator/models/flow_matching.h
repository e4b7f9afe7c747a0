#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/models/density.h"
#include "propagator/nn/rational_spline.h"

namespace propagator::models {

struct FlowMatchingOptions : DensityOptions {
  int64_t width = 128;
  int64_t layers = 3;
  int64_t steps = 20;

  void describe(config::Schema& schema) override;
  // A time, and a normal number of each variable.
  int64_t noise_numbers(const DensityShape& shape) const override {
    return 1 + shape.variables;
  }
  std::shared_ptr<Density> make(const DensityShape& shape) const override;
};

// A velocity v(x, t) that carries normal numbers at t = 0 to the data at t = 1:
//   dx/dt = v,   d log p/dt = -∇·v.
// It learns the mean of x_1 - x_0 over the straight lines from normal numbers
// to data that go through a place, so that training solves no equation. Samples
// and likelihoods do, by a fourth-order method; ∇·v is exact, by jets.
class FlowMatching : public NormalFlow {
 public:
  FlowMatching(const FlowMatchingOptions& options, const DensityShape& shape);

  nn::Mapped to_normal(const torch::Tensor& x,
                       const torch::Tensor& given) override;
  torch::Tensor from_normal(const torch::Tensor& u,
                            const torch::Tensor& given) override;

  torch::Tensor loss(const torch::Tensor& x, const torch::Tensor& given,
                     const torch::Tensor& noise) override;
  std::string loss_name() const override { return "velocity"; }

 private:
  // v at x (N, D) and t (N, 1) or (1, 1), along with ∇·v where it is asked for.
  nn::Mapped velocity(const torch::Tensor& x, const torch::Tensor& t,
                      const torch::Tensor& given, bool with_divergence);
  // Along the stream from one time to another: the places, and ∫ ∇·v dt.
  nn::Mapped carry(const torch::Tensor& x, const torch::Tensor& given,
                   double from, double to, bool with_divergence);

  FlowMatchingOptions options_;
  torch::nn::Linear place_{nullptr}, rest_{nullptr}, out_{nullptr};
  std::vector<torch::nn::Linear> hidden_;
};

}  // namespace propagator::models
