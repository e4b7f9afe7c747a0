#pragma once

#include "propagator/core/device.h"
#include "propagator/models/density.h"
#include "propagator/tasks/density/inference.h"

namespace propagator::tasks {

struct PosteriorTestOptions {
  int64_t draws = 200;    // samples of each posterior
  int64_t batch = 10000;  // samples of one forward pass
  bool modes = true;      // whether to find them
};

// What posteriors say of truths that they do not know, (N) each and on the CPU
// in float64.
struct PosteriorTest {
  // The share of the posterior where it is denser than at the truth: uniform
  // on [0, 1] if posteriors are right.
  torch::Tensor regions;
  // (N, D), the share of it below the truth, variable by variable: uniform too.
  torch::Tensor ranks;
  torch::Tensor modes;  // (N, D), where it is densest, if asked for
};

// x (N, D) and what is given (N, C), on the model's device. Tells this thread's
// observer how far it has come.
PosteriorTest test_posteriors(models::Density& model, const torch::Tensor& x,
                              const torch::Tensor& given,
                              const PosteriorTestOptions& options, int64_t seed,
                              const Runtime& runtime);

// The exact log posterior at the truths, (N): the simulator's joint density
// over its integral, by samples of the model that are weighed with what the
// model lacks. `share` (N) is how many of the samples count, of all.
struct ExactPosterior {
  torch::Tensor log_prob, share;
};
ExactPosterior exact_posterior(
    models::Density& model, const Inference& inference, const torch::Tensor& x,
    const torch::Tensor& observed, const torch::Tensor& given,
    const PosteriorTestOptions& options, int64_t seed, const Runtime& runtime);

}  // namespace propagator::tasks
