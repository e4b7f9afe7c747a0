#pragma once

#include "propagator/models/density.h"
#include "propagator/nn/masked_mlp.h"
#include "propagator/nn/rational_spline.h"

namespace propagator::models {

enum class FlowMap { kAffine, kSpline };

struct AutoregressiveFlowOptions : DensityOptions {
  FlowMap map = FlowMap::kAffine;
  int64_t flows = 5;
  int64_t width = 64;
  int64_t layers = 2;
  nn::RationalSplineOptions spline;

  void describe(config::Schema& schema) override;
  std::shared_ptr<Density> make(const DensityShape& shape) const override;
};

// Maps one after the other, each of which takes every variable by a monotone
// function that those before it choose, until the data are normal numbers:
//   p(x) = N(u(x)) |∂u/∂x|,   u_d = f(x_d; x_<d),
// with f affine (MAF) or a spline. Each map has the variables in the other
// direction, after a shift and a scale of each. It begins as the identity.
class AutoregressiveFlow : public NormalFlow {
 public:
  AutoregressiveFlow(const AutoregressiveFlowOptions& options,
                     const DensityShape& shape);

  void initialise(int64_t seed) override;

  nn::Mapped to_normal(const torch::Tensor& x,
                       const torch::Tensor& given) override;
  torch::Tensor from_normal(const torch::Tensor& u,
                            const torch::Tensor& given) override;

 private:
  struct Map {
    torch::Tensor shift, log_scale;  // (D)
    nn::MaskedMlp net{nullptr};
  };
  // The inverse of f, with parameters (N, D, P).
  torch::Tensor back(const torch::Tensor& u,
                     const torch::Tensor& parameters) const;

  AutoregressiveFlowOptions options_;
  std::vector<Map> maps_;
};

}  // namespace propagator::models

namespace propagator::config {

template <>
struct Names<models::FlowMap> {
  using enum models::FlowMap;
  static constexpr std::pair<models::FlowMap, const char*> all[] = {
      {kAffine, "affine"}, {kSpline, "spline"}};
};

}  // namespace propagator::config
