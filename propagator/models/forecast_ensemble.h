#pragma once

#include "propagator/models/forecaster.h"

namespace propagator::models {

// Several forecasters of the same fields, trained apart, as one. Its answer is
// the mean of theirs; its deviation has what they predict and where they
// differ:
//   mean = 1/M Σ m_k,  deviation² = 1/M Σ (s_k² + (m_k - mean)²),
// the mean and variance of the mixture of their normal distributions. A
// trajectory is drawn from one of them, so that what they differ in is
// correlated in space and time as their errors are.
class ForecastEnsemble : public Forecaster {
 public:
  // UsageError unless they are at least two, all predict a variance, are given
  // as many frames, and are all autoregressive or all not.
  explicit ForecastEnsemble(std::vector<std::shared_ptr<Forecaster>> members);

  torch::Tensor forward(const torch::Tensor& frames,
                        const torch::Tensor& alpha) override;
  torch::Tensor predict(
      const torch::Tensor& first, const torch::Tensor& alpha,
      const std::function<void(int64_t)>& progress = {}) override;
  bool predicts_variance() const override { return true; }
  FrameSpread spread(const torch::Tensor& frames,
                     const torch::Tensor& alpha) override;
  std::vector<Forecaster*> members() override;

  bool uses_alpha() const override;
  int64_t visible() const override { return members_.front()->visible(); }
  bool autoregressive() const override {
    return members_.front()->autoregressive();
  }
  int64_t first_hidden(int64_t output) const override {
    return members_.front()->first_hidden(output);
  }

 private:
  std::vector<std::shared_ptr<Forecaster>> members_;
};

}  // namespace propagator::models
