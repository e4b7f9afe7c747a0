#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <cmath>
#include <numbers>

#include "propagator/models/autoregressive_flow.h"
#include "propagator/models/density_former.h"
#include "propagator/models/flow_matching.h"
#include "propagator/models/gaussian.h"
#include "propagator/models/made.h"
#include "testing.h"

// What densities learn of a distribution that is known.

namespace propagator::models {
namespace {

using torch::Tensor;

// How far a density that learns 4000 samples of a normal distribution for so
// many steps is below it on these.
double gap_to_gaussian(const DensityOptions& options, int steps) {
  const double correlation = 0.8;
  const auto z = RandomStream(1, "gaussian").normal({4000, 2});
  const auto x = torch::stack(
      {1 + 2 * z.select(1, 0),
       correlation * z.select(1, 0) +
           std::sqrt(1 - correlation * correlation) * z.select(1, 1)},
      1);
  auto model = options.make({2, 0});
  model->to(torch::kFloat64);
  model->initialise(1);
  const auto none = torch::zeros({4000, 0}, torch::kFloat64);
  model->calibrate(x, none);
  std::vector<Tensor> trained;
  for (auto& value : model->parameters()) {
    if (value.requires_grad()) trained.push_back(value);
  }
  torch::optim::Adam adam(trained, torch::optim::AdamOptions(0.02));
  for (int n = 0; n < steps; ++n) {
    const auto noise = RandomStream(n, "noise")
                           .uniform({4000, options.noise_numbers({2, 0})}, 0, 1,
                                    torch::kFloat64);
    adam.zero_grad();
    model->loss(x, none, noise).mean().backward();
    adam.step();
  }
  const auto u = z.select(1, 0), v = z.select(1, 1);
  const auto exact = -0.5 * (u.square() + v.square()) -
                     std::log(2 * std::numbers::pi) - std::log(2) -
                     0.5 * std::log(1 - correlation * correlation);
  const torch::NoGradGuard no_grad;
  return (exact - model->log_prob(x, none)).mean().item<double>();
}

// Normal conditionals, a normal distribution, one affine map and one of splines
// can be any normal distribution, and mixtures contain it: it is found.
TEST(ModelsDensityFit, AKnownGaussianIsRecovered) {
  MadeOptions made;
  made.width = 8;
  EXPECT_LT(std::abs(gap_to_gaussian(made, 200)), 5e-3);
  AutoregressiveFlowOptions maf;
  maf.map = FlowMap::kAffine;
  maf.flows = 1;
  maf.width = 8;
  EXPECT_LT(std::abs(gap_to_gaussian(maf, 200)), 5e-3);
  GaussianOptions gaussian;
  gaussian.width = 8;
  EXPECT_LT(std::abs(gap_to_gaussian(gaussian, 200)), 5e-3);
  DensityFormerOptions former;
  former.components = 2;
  former.width = 16;
  former.heads = 2;
  former.layers = 1;
  former.feed_forward = 16;
  EXPECT_LT(std::abs(gap_to_gaussian(former, 200)), 1e-2);
  AutoregressiveFlowOptions spline;
  spline.map = FlowMap::kSpline;
  spline.flows = 1;
  spline.width = 8;
  EXPECT_LT(std::abs(gap_to_gaussian(spline, 200)), 1e-2);
}

TEST(ModelsDensityFit, AStreamFindsAKnownGaussian) {
  FlowMatchingOptions options;
  options.width = 32;
  options.layers = 2;
  EXPECT_LT(std::abs(gap_to_gaussian(options, 300)), 2e-2);
}

}  // namespace
}  // namespace propagator::models
