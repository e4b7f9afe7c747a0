#pragma once

#include "propagator/models/density.h"
#include "propagator/nn/masked_mlp.h"
#include "propagator/nn/normal_mixture.h"

namespace propagator::models {

struct MadeOptions : DensityOptions {
  int64_t components = 1;
  int64_t width = 64;
  int64_t layers = 2;
  std::vector<std::string> order = {};

  void describe(config::Schema& schema) override;
  void validate(const DensityShape& shape) const override;
  std::shared_ptr<Density> make(const DensityShape& shape) const override;
};

// Of each variable, given those before it, a mixture of normal distributions
// whose weights, means and widths a masked network gives:
//   p(x) = Π_d Σ_k π_dk(x_<d) N(x_d | μ_dk(x_<d), σ_dk(x_<d)²).
class Made : public Density {
 public:
  Made(const MadeOptions& options, const DensityShape& shape);

  void initialise(int64_t seed) override;

 protected:
  torch::Tensor scaled_log_prob(const torch::Tensor& x,
                                const torch::Tensor& given) override;
  torch::Tensor scaled_sample(const torch::Tensor& given,
                              const RandomStream& stream) override;

 private:
  nn::NormalMixture mixture(const torch::Tensor& x,
                            const torch::Tensor& given);  // (N, D)

  nn::MaskedMlp net_;
};

}  // namespace propagator::models
