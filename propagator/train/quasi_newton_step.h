#pragma once

#include "propagator/train/lbfgs.h"
#include "propagator/train/step.h"

namespace propagator::train {

// One outer iteration of L-BFGS over all training cases, in parts of `batch`.
class QuasiNewtonStep {
 public:
  // `batch` 0: all cases at once.
  QuasiNewtonStep(Trainable& task, std::shared_ptr<torch::nn::Module> model,
                  FlatParameters& parameters, const LbfgsOptions& options,
                  int64_t batch, const Runtime& runtime);

  void run();
  StepRecord read() const;

  // One evaluation by itself: the loss, still on the device; its gradient is
  // then that of the parameters.
  torch::Tensor evaluate() {
    parameters_.refresh();
    return gradient_.evaluate();
  }

  // Whether it has stopped for good, and why.
  bool stopped() const { return optimizer_.stop() != LbfgsStop::kNone; }
  std::string why() const { return reason(optimizer_.stop(), precision_); }

  Lbfgs& optimizer() { return optimizer_; }

 private:
  Precision precision_;
  FlatParameters& parameters_;
  Lbfgs optimizer_;
  LossGradient gradient_;
  Lbfgs::Outcome outcome_{};
  torch::Tensor accepted_;  // values of the point that the iteration ended at
};

}  // namespace propagator::train
