#pragma once

#include "propagator/models/fitted_net.h"
#include "propagator/nn/kriging.h"

namespace propagator::models {

enum class ProcessKernel { kSquaredExponential, kMatern52 };

struct GaussianProcessOptions : FieldNetOptions {
  ProcessKernel kernel = ProcessKernel::kSquaredExponential;
  int64_t evaluations = 100;
  int64_t search_readings = 2000;

  void describe(config::Schema& schema) override;
  void validate(const FieldDomain&) const override {}
  bool windowed() const override { return false; }
  bool needs_readings() const override { return true; }
  bool is_fitted() const override { return true; }
  int64_t smoothness() const override;
  std::shared_ptr<FieldNet> make(const FieldDomain& domain) const override;
};

// Kriging: each field that is read is a Gaussian process of its own about the
// mean of its readings, with one length for each axis and a noise variance by
// the largest marginal likelihood (nn/kriging.h). The answer is the posterior
// mean; where log variances are asked for, they are those of a reading at the
// point, noise included. A field that is never read is 0, its variance 1.
class GaussianProcess : public FittedNet {
 public:
  GaussianProcess(const GaussianProcessOptions& options,
                  const FieldDomain& domain);

 private:
  void fit(const autodiff::Observations& read) override;
  autodiff::Jet answer(const autodiff::Jet& points) override;
  // log σ² (1 + ρ - |L⁻¹k|²) of the process k (R; N, M) of field f.
  autodiff::Jet log_variance(const autodiff::Jet& kernel, int64_t field,
                             int64_t number) const;

  GaussianProcessOptions options_;
  nn::Radial kernel_;
  int64_t fields_;  // without the log variances
};

}  // namespace propagator::models

namespace propagator::config {

template <>
struct Names<models::ProcessKernel> {
  using enum models::ProcessKernel;
  static constexpr std::pair<models::ProcessKernel, const char*> all[] = {
      {kSquaredExponential, "squared_exponential"}, {kMatern52, "matern52"}};
};

}  // namespace propagator::config
