#pragma once

#include <torch/types.h>

#include "propagator/core/random.h"

namespace propagator::nn {

// Mixtures of K normal distributions of one number each.
struct NormalMixture {
  torch::Tensor log_weight, mean, log_width;  // (…, K)

  // From (…, 3K) numbers of any size, as a network gives them; zeros give
  // components of width 1 side by side over ±2, or one about 0.
  static NormalMixture of(const torch::Tensor& raw);

  // The log of the density at x (…), → (…), of the mixtures of such numbers.
  static torch::Tensor log_prob(const torch::Tensor& raw,
                                const torch::Tensor& x);
  // A number of each, from a uniform one on [0, 1) and a normal one, (…).
  torch::Tensor sample(const torch::Tensor& uniform,
                       const torch::Tensor& normal) const;
};

// Normal numbers of uniform ones on [0, 1).
torch::Tensor normal_from_uniform(const torch::Tensor& uniform);

// What `sample` takes, for each of `count` rows of so many variables.
struct MixtureNumbers {
  torch::Tensor uniform, normal;  // (N, D)
};
MixtureNumbers draw_mixture_numbers(int64_t count, int64_t variables,
                                    const RandomStream& stream,
                                    const torch::TensorOptions& options);

}  // namespace propagator::nn
