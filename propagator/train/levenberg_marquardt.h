#pragma once

#include <functional>
#include <map>
#include <string>

#include "propagator/core/config.h"
#include "propagator/train/descent_stop.h"
#include "propagator/train/failed_steps.h"
#include "propagator/train/flat_parameters.h"
#include "propagator/train/trainable.h"

namespace propagator::train {

struct LevenbergMarquardtOptions {
  int64_t iterations = 1;
  int64_t tries = 10;
  int64_t max_parameters = 5000;
  double damping = 1e-3;

  void describe(config::Schema& schema);
};

// Levenberg-Marquardt for a loss that is a sum of squares, r·r, with the whole
// Jacobian J = ∂r/∂θ in float64: a step δ is the least of |r + J δ|² + λ |δ|².
// One that does not lower the loss is rejected, and λ grows until one does;
// the better J δ has foretold the loss, the more λ falls after it (Nielsen's
// rule). After a step that failed λ goes on from there on the same points, and
// from where it was before on others.
//
// Cholesky factors of JᵀJ + λ, or of J Jᵀ + λ where there are fewer residuals
// than parameters (Woodbury), solve for δ. Their condition is the square of
// J's, so what they leave of the equations is computed with J itself and solved
// for once more.
class LevenbergMarquardt {
 public:
  // With the Jacobian if it is asked for; the parameters are those of the
  // buffer.
  using Residuals = std::function<LeastSquares(bool with_jacobian)>;

  // ConfigError of more parameters than options.max_parameters.
  LevenbergMarquardt(const LevenbergMarquardtOptions& options,
                     FlatParameters& parameters);

  // Some iterations on the same residuals; between steps they may change (new
  // points). The parameters are at the last point accepted, also when
  // `residuals` throws.
  DescentOutcome step(const Residuals& residuals);

  // The damping and counters, for a checkpoint. DataError if the state is not
  // one of this method.
  std::map<std::string, torch::Tensor> state() const;
  void restore(const std::map<std::string, torch::Tensor>& state);

  int64_t iterations() const { return iterations_; }
  double damping() const { return damping_; }
  DescentStop stop() const { return stop_; }
  FailedSteps& failures() { return failures_; }
  const FailedSteps& failures() const { return failures_; }

 private:
  // False if no step lowered the loss.
  bool iterate(const Residuals& residuals, const LeastSquares& here);

  LevenbergMarquardtOptions options_;
  FlatParameters& parameters_;
  double damping_ = 0;  // λ; 0: not chosen yet
  double before_failure_ = 0;
  double loss_ = 0, norm_ = 0;
  int64_t iterations_ = 0, evaluations_ = 0;
  FailedSteps failures_;
  DescentStop stop_ = DescentStop::kNone;
};

// The least of |r + J δ|² + λ |δ|² over δ (n), `jacobian` being Jᵀ (n, R) and r
// (R) in float64. Undefined if λ is too small for a Cholesky factor.
class DampedLeastSquares {
 public:
  DampedLeastSquares(const torch::Tensor& jacobian,
                     const torch::Tensor& residuals);

  torch::Tensor solve(double damping) const;
  const torch::Tensor& gradient() const { return gradient_; }  // Jᵀ r
  double largest_diagonal() const;                             // of JᵀJ
  // By how much δ = solve(damping) lowers |r|², |r|² − |r + J δ|², from
  // −gᵀδ + λ |δ|²: without the difference of what is almost the same.
  double foretold(const torch::Tensor& delta, double damping) const;

 private:
  torch::Tensor jacobian_, residuals_, gradient_;
  torch::Tensor product_;  // JᵀJ (n, n), or J Jᵀ (R, R) if that is smaller
  bool by_residuals_;
};

}  // namespace propagator::train
