#pragma once

#include <map>
#include <string>

#include "propagator/core/config.h"
#include "propagator/train/descent_stop.h"
#include "propagator/train/failed_steps.h"
#include "propagator/train/inverse_hessian.h"
#include "propagator/train/line_loss.h"

namespace propagator::train {

struct BroydenOptions {
  int64_t iterations = 100;
  int64_t max_parameters = 10000;
  double tolerance_gradient = 1e-14;

  void describe(config::Schema& schema);
};

// The self-scaled Broyden method with a strong-Wolfe line search on the flat
// buffers: like BFGS with a dense inverse Hessian H in float64, which each
// update also scales, and moves from BFGS towards DFP, as far as H may have
// grown too large. On residuals of PDEs it goes orders of magnitude further
// than L-BFGS, for networks small enough for H: n² numbers.
//
// A step, a chunk of iterations, first evaluates the loss where the parameters
// are, so that between steps the function may change (new points, other
// weights) while H is kept. It also makes H symmetric again, and begins anew
// with the steepest descent if H is no longer positive definite, which it
// counts. A search that fails ends its chunk. Where that comes to nothing, the
// next begins with the steepest descent too, but for one on other points. Only
// when several chunks in a row come to nothing has the method stopped; every
// later step returns at once.
class Broyden {
 public:
  // ConfigError of more parameters than options.max_parameters.
  Broyden(const BroydenOptions& options, FlatParameters& parameters);

  DescentOutcome step(const LineLoss::Closure& closure);

  // With H and the counters a restored one goes on to the same bits. DataError
  // if the state is not one of these parameters.
  std::map<std::string, torch::Tensor> state() const;
  void restore(const std::map<std::string, torch::Tensor>& state);

  int64_t iterations() const { return iterations_; }
  int64_t evaluations() const { return line_.evaluations(); }
  DescentStop stop() const { return stop_; }
  const InverseHessian& hessian() const { return hessian_; }
  FailedSteps& failures() { return failures_; }
  const FailedSteps& failures() const { return failures_; }
  int64_t lost() const { return lost_; }  // how often H had to begin anew

 private:
  void prepare();  // H, for a chunk
  // False if it found nothing lower.
  bool iterate(const LineLoss::Closure& closure);

  BroydenOptions options_;
  LineLoss line_;
  InverseHessian hessian_;
  int64_t iterations_ = 0;
  FailedSteps failures_;
  int64_t lost_ = 0;
  DescentStop stop_ = DescentStop::kNone;
};

}  // namespace propagator::train
