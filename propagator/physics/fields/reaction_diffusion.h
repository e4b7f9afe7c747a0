#pragma once

#include "propagator/physics/fields/basis.h"
#include "propagator/physics/fields/field_problem.h"

namespace propagator::physics {

// Two substances that diffuse and react on a square:
//   u_t = D_u Δu + R_u(u, v),  v_t = D_v Δv + R_v(u, v).
// Diffusion is exact in the basis of each axis, and exponential Runge-Kutta
// steps of fourth order take in the reaction. Values (N, T, X, Y, 2).
class ReactionDiffusion : public FieldProblem {
 public:
  FieldCases solve(const CaseRange& range) const override;
  std::map<std::string, double> assess(const CaseRange& range,
                                       const FieldCases& found,
                                       FieldCheck check) const override;
  torch::Tensor continued(const torch::Tensor& states,
                          const torch::Tensor& parameters,
                          int64_t count) const override;
  bool continues() const override { return true; }
  int64_t cases_at_once() const override { return 4; }

 protected:
  // The equation's own part of this: rates of reaction of u and v, (N, X, Y)
  // each, stacked along axis 1, with the parameters (N, P) of the cases.
  virtual torch::Tensor reaction(const torch::Tensor& state,
                                 const torch::Tensor& parameters) const = 0;
  virtual torch::Tensor initial(const CaseRange& range) const = 0;
  virtual torch::Tensor parameters(const CaseRange& range) const = 0;
  virtual AxisBasis basis(int64_t points,
                          const torch::TensorOptions& where) const = 0;

  // Keys that both have.
  void describe_grid(config::Schema& schema);
  void describe_steps(config::Schema& schema);

  int64_t points_ = 128, steps_ = 1;  // steps from frame to frame
  FieldTimes times_{101, 5};
  double diffusion_u_ = 0, diffusion_v_ = 0;
  LaplacianKind laplacian_ = LaplacianKind::kSpectral;

 private:
  // The frames after `begin` (N, 2, X, Y), (N, X, Y, 2) each, as they come.
  void march(const torch::Tensor& begin, const torch::Tensor& parameters,
             int64_t steps, int64_t count,
             const std::function<void(int64_t n, const torch::Tensor& frame)>&
                 take) const;
  torch::Tensor frames(const CaseRange& range, int64_t steps) const;
  torch::Tensor explicit_frames(const CaseRange& range) const;
};

enum class ReactionStart { kNoise, kSmooth };

// The equations of FitzHugh and Nagumo as a benchmark has them,
//   R_u = u - u³ - k - v,  R_v = u - v,
// on [-1, 1]² without flux, from independent normal numbers in each cell.
class DiffusionReaction : public ReactionDiffusion {
 public:
  DiffusionReaction();
  void describe(config::Schema& schema) override;
  void validate() const override {}
  FieldLayout layout() const override;
  FieldGrid grid() const override { return FieldGrid::kCells; }

 protected:
  torch::Tensor reaction(const torch::Tensor& state,
                         const torch::Tensor& parameters) const override;
  torch::Tensor initial(const CaseRange& range) const override;
  torch::Tensor parameters(const CaseRange& range) const override;
  AxisBasis basis(int64_t points,
                  const torch::TensorOptions& where) const override;

 private:
  double k_ = 5e-3;
  ReactionStart start_ = ReactionStart::kNoise;
};

// The equations of Gray and Scott,
//   R_u = -u v² + F (1 - u),  R_v = u v² - (F + k) v,
// on [-1, 1]², periodic, from u = 1 and v = 0 with some Gaussian spots of v.
class GrayScott : public ReactionDiffusion {
 public:
  GrayScott();
  void describe(config::Schema& schema) override;
  void validate() const override;
  FieldLayout layout() const override;

 protected:
  torch::Tensor reaction(const torch::Tensor& state,
                         const torch::Tensor& parameters) const override;
  torch::Tensor initial(const CaseRange& range) const override;
  torch::Tensor parameters(const CaseRange& range) const override;
  AxisBasis basis(int64_t points,
                  const torch::TensorOptions& where) const override;

 private:
  double feed_min_ = 0.029, feed_max_ = 0.029;
  double kill_min_ = 0.057, kill_max_ = 0.057;
  int64_t spots_ = 20;
  double spot_width_ = 0.05;
};

}  // namespace propagator::physics

namespace propagator::config {

template <>
struct Names<physics::LaplacianKind> {
  using enum physics::LaplacianKind;
  static constexpr std::pair<physics::LaplacianKind, const char*> all[] = {
      {kSpectral, "spectral"}, {kDifferences, "differences"}};
};

template <>
struct Names<physics::ReactionStart> {
  using enum physics::ReactionStart;
  static constexpr std::pair<physics::ReactionStart, const char*> all[] = {
      {kNoise, "noise"}, {kSmooth, "smooth"}};
};

}  // namespace propagator::config
