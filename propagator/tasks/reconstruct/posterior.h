#pragma once

#include <torch/types.h>

namespace propagator::tasks {

// What a loss r·r with Jacobian J (R, P) says of its parameters θ where it is
// least, as a normal distribution of covariance s² (JᵀJ + λ)⁻¹. λ, of the size
// of rounding, is a prior so wide that it matters for weights alone that change
// nothing. Of R residuals some are readings, √(w/n) times an error of standard
// deviation σ, so that s² = σ² w / n; the others are constraints that count as
// readings of 0 with the same s².
struct Posterior {
  // Of the parameters that are sought, over s: infinite where the residuals
  // do not determine one.
  torch::Tensor deviations;  // (K)
  // How many numbers the readings determine: tr J_d (JᵀJ + λ)⁻¹ J_dᵀ, J_d being
  // the rows of J that are readings. n of them less these are free to show σ.
  double used = 0;
};

// `jacobian` is Jᵀ (P, R). Parameters from `sought` on, `count` of them, are
// asked for; the last `readings` residuals are readings.
Posterior posterior_of(const torch::Tensor& jacobian, int64_t sought,
                       int64_t count, int64_t readings);

}  // namespace propagator::tasks
