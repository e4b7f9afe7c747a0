#pragma once

#include <torch/types.h>

#include "propagator/core/random.h"
#include "propagator/models/forecaster.h"

namespace propagator::tasks {

// How the errors of a forecaster go together in space and time. In units of
// the predicted deviations an error is
//   z = Σ_k modes_k u_k + rest ∘ e,  u and e independent normal numbers,
// so that neighbours are off together. modes (K, T, R, C), rest (T, R, C). K =
// 0 is noise without any correlation.
struct ErrorModes {
  torch::Tensor modes, rest;

  int64_t count() const { return modes.size(0); }
  // Frame t times size[t].
  ErrorModes scaled(const torch::Tensor& size) const;
  ErrorModes to(torch::TensorOptions options) const {
    return {modes.to(options), rest.to(options)};
  }
};

// The leading `count` modes of errors z (N, T, R, C): principal components, by
// the N × N matrix of their products. Each node keeps the mean square that it
// has: what the modes lack the rest has, and modes that have nearly all of it
// are scaled down. Nodes where every z is 0 get none.
ErrorModes fit_modes(const torch::Tensor& z, int64_t count);

// The mean log likelihood of a case of z under them, per node and frame that is
// not certain, up to a constant.
double log_likelihood(const torch::Tensor& z, const ErrorModes& modes);

// Fits as many modes as explain cases best that they were not fitted to: those
// of every other case are tried on the rest, and then all cases are used.
ErrorModes choose_modes(const torch::Tensor& z);

// The same with a mean square of one at all nodes that are not certain, and
// with the same weight for each node and each case: those that are far off
// decide how large errors are, but not how they go together.
ErrorModes unit_modes(const torch::Tensor& z);

// z of the trajectories `rows` (any numbers that tell them apart), the same
// whichever of them are drawn together. (B, 1, R, C) of each frame.
models::Forecaster::FrameNoise mode_noise(const ErrorModes& modes,
                                          const RandomStream& stream,
                                          std::vector<int64_t> rows);

}  // namespace propagator::tasks
