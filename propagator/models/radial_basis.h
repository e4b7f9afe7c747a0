#pragma once

#include <string>
#include <vector>

#include "propagator/models/fitted_net.h"
#include "propagator/nn/radial.h"
#include "propagator/nn/radial_system.h"

namespace propagator::models {

enum class BasisKernel { kThinPlate, kCubic, kGaussian };

struct RadialBasisOptions : FieldNetOptions {
  BasisKernel kernel = BasisKernel::kCubic;
  double smoothing = 0;
  bool choose_smoothing = false;
  double length = 0;
  std::vector<std::string> factors = {};

  void describe(config::Schema& schema) override;
  void validate(const FieldDomain& domain) const override;
  bool windowed() const override { return false; }
  bool needs_readings() const override { return true; }
  bool is_fitted() const override { return true; }
  int64_t smoothness() const override;
  std::shared_ptr<FieldNet> make(const FieldDomain& domain) const override;
};

// Interpolation of each field that is read by radial functions of the distance
// to its sensors and a linear tail (nn/radial_system.h), over axes on [-1, 1]
// times factors. With smoothing λ the answer passes readings by; λ, and the
// length of a Gaussian, can be those with the least leave-one-out error. A
// field that is never read is 0.
class RadialBasis : public FittedNet {
 public:
  RadialBasis(const RadialBasisOptions& options, const FieldDomain& domain);

 private:
  void fit(const autodiff::Observations& read) override;
  autodiff::Jet answer(const autodiff::Jet& points) override;
  // Of one field, with the length and smoothing that fit best.
  struct Fitted {
    double length = 1;
    double smoothing = 0;
    nn::RadialSystem::Solution solution;
  };
  Fitted fit_field(const torch::Tensor& places, const torch::Tensor& y) const;

  RadialBasisOptions options_;
  nn::Radial kernel_;
  torch::Tensor factors_;  // (D)
};

}  // namespace propagator::models

namespace propagator::config {

template <>
struct Names<models::BasisKernel> {
  using enum models::BasisKernel;
  static constexpr std::pair<models::BasisKernel, const char*> all[] = {
      {kThinPlate, "thin_plate"}, {kCubic, "cubic"}, {kGaussian, "gaussian"}};
};

}  // namespace propagator::config
