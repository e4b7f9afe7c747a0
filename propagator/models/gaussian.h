#pragma once

#include <torch/nn/modules/linear.h>

#include <vector>

#include "propagator/models/density.h"

namespace propagator::models {

struct GaussianOptions : DensityOptions {
  int64_t width = 64;
  int64_t layers = 2;

  void describe(config::Schema& schema) override;
  std::shared_ptr<Density> make(const DensityShape& shape) const override;
};

// One normal distribution, whose mean and covariance a network says from what
// is given, as models of `locate` do:
//   u = S (x - μ) - A (x - μ),   p(x) = N(u) |S|,
// S diagonal and positive, A strictly lower triangular. Begins as independent
// normal numbers of mean 0 and variance 1.
class Gaussian : public NormalFlow {
 public:
  Gaussian(const GaussianOptions& options, const DensityShape& shape);

  void initialise(int64_t seed) override;
  nn::Mapped to_normal(const torch::Tensor& x,
                       const torch::Tensor& given) override;
  torch::Tensor from_normal(const torch::Tensor& u,
                            const torch::Tensor& given) override;

 private:
  struct Numbers {
    torch::Tensor mean, log_scale;  // (N, D): μ and log S
    torch::Tensor lower;            // (N, D, D): A
  };
  Numbers numbers(const torch::Tensor& given);

  torch::nn::Linear in_{nullptr}, out_{nullptr};
  std::vector<torch::nn::Linear> hidden_;
};

}  // namespace propagator::models
