#pragma once

#include "propagator/models/density.h"
#include "propagator/nn/encoder.h"
#include "propagator/nn/normal_mixture.h"

namespace propagator::models {

struct DensityFormerOptions : DensityOptions {
  int64_t components = 8;
  int64_t width = 64;
  int64_t heads = 4;
  int64_t layers = 2;
  int64_t feed_forward = 128;

  void describe(config::Schema& schema) override;
  void validate(const DensityShape& shape) const override;
  std::shared_ptr<Density> make(const DensityShape& shape) const override;
};

// An autoregressive transformer over variables: token d knows the value of
// variable d - 1, its own place and what is given, attends to the tokens up to
// itself, and gives the mixture of normal distributions of variable d.
class DensityFormer : public Density {
 public:
  DensityFormer(const DensityFormerOptions& options, const DensityShape& shape);

  void initialise(int64_t seed) override;

 protected:
  torch::Tensor scaled_log_prob(const torch::Tensor& x,
                                const torch::Tensor& given) override;
  torch::Tensor scaled_sample(const torch::Tensor& given,
                              const RandomStream& stream) override;

 private:
  // Tokens of the variables from `first` on, from the values (N, T) of those
  // before them and what is made of `given`, (N, T, W).
  torch::Tensor tokens(const torch::Tensor& before,
                       const torch::Tensor& given_part, int64_t first);
  torch::Tensor given_part(const torch::Tensor& given);
  // The numbers (N, D, 3 K) of the variables' mixtures. Where nothing is given,
  // the first token is the same for all rows, and so are its numbers.
  torch::Tensor mixtures(const torch::Tensor& x, const torch::Tensor& given);

  DensityFormerOptions options_;
  torch::nn::Linear value_in_, value_out_, given_;
  torch::Tensor places_;  // (D, W)
  nn::Encoder encoder_;
  torch::nn::Linear head_;
};

}  // namespace propagator::models
