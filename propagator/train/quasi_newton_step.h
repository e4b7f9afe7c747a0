#pragma once

#include "propagator/train/lbfgs.h"
#include "propagator/train/step.h"

namespace propagator::train {

// One outer iteration of L-BFGS over all training cases. The loss and its
// gradient are summed over parts of `batch` cases, so that memory does not
// limit their number. On CUDA one evaluation is a graph where a step would be.
class QuasiNewtonStep {
 public:
  // `batch` 0: all cases at once.
  QuasiNewtonStep(Task& task, std::shared_ptr<torch::nn::Module> model,
                  FlatParameters& parameters, const LbfgsOptions& options,
                  int64_t batch, const Runtime& runtime);

  void run();
  Step::Record read() const;

  // One evaluation by itself: the loss, still on the device; its gradient is
  // then that of the parameters.
  torch::Tensor evaluate();

  // Whether it has stopped for good, and why.
  bool stopped() const { return optimizer_.stop() != LbfgsStop::kNone; }
  std::string why() const {
    return reason(optimizer_.stop(), runtime_.precision);
  }

  Lbfgs& optimizer() { return optimizer_; }

 private:
  void enqueue();

  Task& task_;
  std::shared_ptr<torch::nn::Module> model_;
  FlatParameters& parameters_;
  Runtime runtime_;
  Lbfgs optimizer_;
  Lbfgs::Outcome outcome_{};
  std::vector<torch::Tensor> parts_;  // positions
  std::vector<std::string> names_;
  torch::Tensor values_;    // loss and terms of an evaluation, in float64
  torch::Tensor accepted_;  // those of the point that the iteration ended at
  std::unique_ptr<StepGraph> graph_;
};

}  // namespace propagator::train
