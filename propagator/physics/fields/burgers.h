#pragma once

#include "propagator/physics/fields/sine_waves.h"

namespace propagator::physics {

enum class BurgersMethod { kExact, kSpectral };

// Burgers' equation on the unit interval, periodic:
//   u_t + u u_x = ε u_xx,  ε = ν/π,
// from sums of sines, whose mean is 0. Values (N, T, X, 1). `exact` is the
// formula of Cole and Hopf: with F' = u(·, 0),
//   u(x, t) = ∫ (x - y)/t w dy / ∫ w dy,  w = exp(-(x - y)²/4εt - F(y)/2ε),
// by the trapezoidal rule, whose error falls faster than any power of its
// spacing, and with the largest exponent taken out; where F/2ε is small, as a
// heat equation in Fourier space. `spectral` steps Fourier coefficients, of
// which the upper third is kept 0, by exponential Runge-Kutta.
class Burgers : public FieldProblem {
 public:
  void describe(config::Schema& schema) override;
  void validate() const override;
  FieldLayout layout() const override;
  FieldCases solve(const CaseRange& range) const override;
  std::map<std::string, double> assess(const CaseRange& range,
                                       const FieldCases& found,
                                       FieldCheck check) const override;
  torch::Tensor continued(const torch::Tensor& states,
                          const torch::Tensor& parameters,
                          int64_t count) const override;
  bool continues() const override { return true; }
  int64_t computed_nodes() const override { return refine_; }
  std::vector<std::string> conserved() const override { return {"u"}; }
  int64_t cases_at_once() const override {
    return method_ == BurgersMethod::kExact && !is_mild() ? 8 : 64;
  }

 private:
  double diffusion() const;      // ε
  double largest_slope() const;  // bound of the initial |u_x|
  double largest_value() const;  // bound of |u|
  // Whether exp(-F/2ε) has a range that Fourier coefficients can hold.
  bool is_mild() const;
  // Points between two of the grid, for an integrand that narrow; twice as many
  // with `finer` 2.
  int64_t quadrature(double time, int64_t finer) const;
  // u at one time, (N, X).
  torch::Tensor by_integral(const SineWaves& waves, double time, int64_t finer,
                            const torch::TensorOptions& where) const;
  torch::Tensor by_heat(const SineWaves& waves, double time, int64_t finer,
                        const torch::TensorOptions& where) const;
  torch::Tensor exact_frame(const SineWaves& waves, double time, int64_t finer,
                            const torch::TensorOptions& where) const;
  // Steps (N, X) on its own grid, whose values are at most `largest`, and gives
  // so many frames.
  void march(const torch::Tensor& begin, double largest, int64_t count,
             const std::function<void(const torch::Tensor& frame)>& take) const;
  torch::Tensor spectral_frames(const CaseRange& range, int64_t finer) const;

  int64_t points_ = 256;
  FieldTimes times_{41, 2};
  double viscosity_ = 0.01;
  SineWaveOptions waves_;
  BurgersMethod method_ = BurgersMethod::kExact;
  int64_t refine_ = 8;
  double courant_ = 0.5;
};

}  // namespace propagator::physics

namespace propagator::config {

template <>
struct Names<physics::BurgersMethod> {
  using enum physics::BurgersMethod;
  static constexpr std::pair<physics::BurgersMethod, const char*> all[] = {
      {kExact, "exact"}, {kSpectral, "spectral"}};
};

}  // namespace propagator::config
