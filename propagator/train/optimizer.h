#pragma once

#include <map>

#include "propagator/core/config.h"
#include "propagator/kernels/adam.h"
#include "propagator/train/flat_parameters.h"

namespace propagator::train {

enum class OptimizerKind {
  kAdam,
  kAdamW,
  kLamb,
  kLbfgs,
  kMuon,
  kBroyden,
  kLevenbergMarquardt
};

// Whether it works on the loss of all cases at once, after steps of Adam.
inline bool is_full(OptimizerKind kind) {
  return kind == OptimizerKind::kLbfgs || kind == OptimizerKind::kBroyden ||
         kind == OptimizerKind::kLevenbergMarquardt;
}
// As such a method is written: "L-BFGS".
const char* full_name(OptimizerKind kind);

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kAdam;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool bias_correction = true;
  double momentum = 0.95;
  int64_t adam_steps = 0;

  void describe(config::Schema& schema);
  void validate() const;
};

// Adam, AdamW (decoupled weight decay) or LAMB (AdamW's direction scaled, for
// each parameter tensor, by |w| / |direction|) on the flat buffer; or Muon on
// its matrices (muon.h) and Adam on the rest. Methods over all cases are
// classes of their own (full_step.h); the steps before one takes over are
// Adam's.
class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, FlatParameters& parameters);

  // The order of parameters that it needs.
  static FlatParameters::Order order_for(OptimizerKind kind);

  // One update, in two parts: what changes from step to step is set, then the
  // update is enqueued with gradients scaled. Returns their norm before
  // clipping, a scalar in float64. The second part alone may be captured in a
  // graph.
  void begin_step(double lr);
  torch::Tensor apply(const kernels::GradientScale& scale);

  // The moments, for a checkpoint; the number of steps goes beside them.
  std::map<std::string, torch::Tensor> state() const;
  void restore(const std::map<std::string, torch::Tensor>& state,
               int64_t steps);
  int64_t steps() const { return steps_; }

 private:
  void lamb(const torch::Tensor& grad_scale);
  void muon(const torch::Tensor& grad_scale);

  OptimizerOptions options_;
  FlatParameters& parameters_;
  torch::Tensor m_, v_;
  kernels::AdamStep now_;
  torch::Tensor varying_;  // lr and both corrections, where the weights are
  int64_t steps_ = 0;
};

}  // namespace propagator::train

namespace propagator::config {

template <>
struct Names<train::OptimizerKind> {
  using enum train::OptimizerKind;
  static constexpr std::pair<train::OptimizerKind, const char*> all[] = {
      {kAdam, "adam"},
      {kAdamW, "adamw"},
      {kLamb, "lamb"},
      {kLbfgs, "lbfgs"},
      {kMuon, "muon"},
      {kBroyden, "broyden"},
      {kLevenbergMarquardt, "levenberg_marquardt"}};
};

}  // namespace propagator::config
