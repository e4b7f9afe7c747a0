#pragma once

#include "propagator/train/broyden.h"
#include "propagator/train/full_step.h"
#include "propagator/train/lbfgs.h"

namespace propagator::train {

// A step of a method that asks for the loss and its gradient alone: L-BFGS or
// Broyden's.
template <class Method>
class QuasiNewtonStep : public FullStep {
 public:
  template <class Options>
  QuasiNewtonStep(const Options& options, FlatParameters& parameters,
                  std::unique_ptr<LossGradient> gradient,
                  const Runtime& runtime)
      : precision_(runtime.precision),
        parameters_(parameters),
        method_(options, parameters),
        gradient_(std::move(gradient)) {}

  void run() override {
    outcome_ = method_.step(LineLoss::Closure([this] { return evaluate(); }));
    // The search may have tried a point beyond the one it chose.
    if (gradient_->values()[0].template item<double>() != outcome_.loss) {
      evaluate();
    }
    accepted_ = gradient_->values().cpu();
    parameters_.refresh();
  }
  StepRecord read() const override {
    return {read_values(accepted_, gradient_->names()), outcome_.gradient_norm};
  }
  const DescentOutcome& outcome() const override { return outcome_; }

  bool failed() const override {
    if constexpr (kCountsFailures) return method_.failures().count() > 0;
    return false;
  }
  void expect_new_cases() override {
    if constexpr (kCountsFailures) method_.failures().expect_new_cases();
  }
  bool stopped() const override { return method_.stop() != DescentStop::kNone; }
  std::string why() const override {
    return reason(method_.stop(), precision_);
  }
  NamedTensors state() const override { return method_.state(); }
  void restore(const NamedTensors& state) override { method_.restore(state); }

 private:
  static constexpr bool kCountsFailures = requires(Method method) {
    method.failures();
  };

  torch::Tensor evaluate() {
    parameters_.refresh();
    return gradient_->evaluate();
  }

  Precision precision_;
  FlatParameters& parameters_;
  Method method_;
  std::unique_ptr<LossGradient> gradient_;
  DescentOutcome outcome_{};
  torch::Tensor accepted_;  // values of the point that the iteration ended at
};

}  // namespace propagator::train
