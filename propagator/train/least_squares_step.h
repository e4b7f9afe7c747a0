#pragma once

#include "propagator/train/full_step.h"
#include "propagator/train/levenberg_marquardt.h"

namespace propagator::train {

// A step of Levenberg-Marquardt on a task whose loss is a sum of squares.
class LeastSquaresStep : public FullStep {
 public:
  // ConfigError if the task, with this model, has no Jacobian.
  LeastSquaresStep(Trainable& task, std::shared_ptr<torch::nn::Module> model,
                   FlatParameters& parameters,
                   const LevenbergMarquardtOptions& options, int64_t batch,
                   const Runtime& runtime);

  void run() override;
  StepRecord read() const override { return {loss_, outcome_.gradient_norm}; }
  const DescentOutcome& outcome() const override { return outcome_; }
  bool failed() const override { return method_.failures().count() > 0; }
  void expect_new_cases() override { method_.failures().expect_new_cases(); }
  bool stopped() const override { return method_.stop() != DescentStop::kNone; }
  std::string why() const override {
    return reason(method_.stop(), runtime_.precision);
  }
  NamedTensors state() const override { return method_.state(); }
  void restore(const NamedTensors& state) override { method_.restore(state); }

 private:
  LeastSquares residuals(bool with_jacobian);

  Trainable& task_;
  std::shared_ptr<torch::nn::Module> model_;
  FlatParameters& parameters_;
  int64_t batch_;
  Runtime runtime_;
  LevenbergMarquardt method_;
  DescentOutcome outcome_{};
  LossValues loss_;
};

}  // namespace propagator::train
