#include "propagator/models/deeponet.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "jet_checks.h"
#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "propagator/train/checkpoint.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using testing::near;
using testing::random;
using torch::Tensor;

const FieldDomain kBar{.low = {0, 0}, .high = {2, 1}, .fields = 3, .time = 1};

DeepOnetOptions small_deeponet() {
  DeepOnetOptions options;
  options.width = 6;
  options.layers = 2;
  options.branch_width = 5;
  options.branch_layers = 2;
  options.basis = 4;
  return options;
}

// Of the first two of three fields, one of them not everywhere.
autodiff::Observations six_readings() {
  auto readings = random({6, 3}, "readings");
  readings[2][1] = std::nan("");
  readings.select(1, 2).fill_(std::nan(""));
  return {random({6, 2}, "places").abs(), readings};
}

std::shared_ptr<DeepOnet> made_deeponet(const DeepOnetOptions& options) {
  auto net = std::make_shared<DeepOnet>(options, kBar);
  net->to(torch::kFloat64);
  net->initialise(1);
  net->observe(six_readings());
  return net;
}

testing::MovingPoints bar_points() {
  return {random({3, 2, 2}, "points") / 2 + 0.5,
          torch::tensor({{1., 0.}, {0., 1.}, {1., 1.}}, torch::kFloat64)};
}

TEST(ModelsDeepOnet, ParameterCountIsThatOfTheFormula) {
  const auto count = [](const DeepOnetOptions& o, int64_t inputs,
                        const FieldDomain& domain) {
    return (inputs + 1) * o.branch_width +
           (o.branch_layers - 1) * (o.branch_width + 1) * o.branch_width +
           (o.branch_width + 1) * o.basis * domain.fields +
           (domain.variables() + 1) * o.width +
           (o.layers - 1) * (o.width + 1) * o.width + (o.width + 1) * o.basis +
           domain.fields;
  };
  // Two fields of six sensors, and as many flags.
  EXPECT_EQ(nn::parameter_count(*made_deeponet(small_deeponet())),
            count(small_deeponet(), 24, kBar));
  // The size of the PGT paper, 0.215 M, for 1500 readings of two of the wake's
  // three fields.
  DeepOnetOptions options;
  options.width = 72;
  options.branch_width = 32;
  const FieldDomain wake{{0, 0, 0}, {1, 1, 1}, 3, 2};
  DeepOnet net(options, wake);
  auto readings = torch::zeros({1500, 3});
  readings.select(1, 2).fill_(std::nan(""));
  net.observe({torch::zeros({1500, 3}), readings});
  EXPECT_EQ(nn::parameter_count(net), count(options, 6000, wake));
  EXPECT_EQ(nn::parameter_count(net), 214899);
}

TEST(ModelsDeepOnet, IsItsFormula) {
  const auto net = made_deeponet(small_deeponet());
  const auto p = net->named_parameters();
  const auto layer = [&](const Tensor& x, const std::string& name) {
    return torch::linear(x, p[name + ".weight"], p[name + ".bias"]);
  };
  const auto read = six_readings().readings;
  const auto known = torch::isfinite(read).to(torch::kFloat64).slice(1, 0, 2);
  const auto all = torch::cat(
      {read.nan_to_num(0).slice(1, 0, 2).flatten(), known.flatten()});
  const auto branch =
      layer(layer(layer(all, "branch0").tanh(), "branch1").tanh(), "branch2")
          .view({3, 4});
  const auto points = bar_points().points;
  const auto unit = points * torch::tensor({1.0, 2.0}, torch::kFloat64) - 1;
  const auto trunk =
      layer(layer(layer(unit, "trunk0").tanh(), "trunk1").tanh(), "trunk2")
          .tanh();
  const auto expected = torch::matmul(trunk, branch.t()) + p["bias"];
  EXPECT_TRUE(near(net->values(points), expected, {1e-11, 1e-12}));
}

TEST(ModelsDeepOnet, DerivativesAndGradientsAreThoseOfReverseMode) {
  for (const auto activation :
       {DeepOnetActivation::kTanh, DeepOnetActivation::kGelu}) {
    auto options = small_deeponet();
    options.activation = activation;
    const auto net = made_deeponet(options);
    const auto map = testing::jet_map(*net);
    const testing::Tolerance exact{1e-9, 1e-9};
    EXPECT_TRUE(testing::derivatives_are_nested(map, bar_points(), 3, exact));
    EXPECT_TRUE(testing::derivatives_are_differences(map, bar_points(), 3,
                                                     {1e-5, 1e-6}));
    EXPECT_TRUE(testing::parameter_gradients_are_nested(*net, map, bar_points(),
                                                        2, exact));
  }
}

TEST(ModelsDeepOnet, AReadingAndItsAbsenceCount) {
  const auto net = made_deeponet(small_deeponet());
  const auto points = bar_points().points;
  const auto before = net->values(points);
  EXPECT_TRUE(torch::isfinite(before).all().item<bool>());
  const auto off = [&] {
    return (net->values(points) - before).abs().max().item<double>();
  };
  auto read = six_readings();
  read.readings[0][0] += 1;
  net->observe(read);
  EXPECT_GT(off(), 1e-6);
  // A zero that was read is not the same as none.
  read = six_readings();
  read.readings[2][1] = 0;
  net->observe(read);
  EXPECT_GT(off(), 1e-6);
  net->observe(six_readings());
  EXPECT_EQ(off(), 0);
}

TEST(ModelsDeepOnet, WhatIsHeldGivesTheSameBits) {
  const auto net = made_deeponet(small_deeponet());
  const auto points = bar_points().points;
  const auto before = net->values(points);
  {
    const auto held = net->hold();
    EXPECT_TRUE(torch::equal(net->values(points), before));
    EXPECT_EQ(net->hold(), nullptr) << "once is enough";
    const torch::NoGradGuard no_grad;
    net->named_parameters()["branch2.weight"].mul_(2);
    EXPECT_TRUE(torch::equal(net->values(points), before));
  }
  EXPECT_FALSE(torch::equal(net->values(points), before));
}

TEST(ModelsDeepOnet, ItsFileHasTheReadingsWhoseNumberItTakesFromThere) {
  const auto net = made_deeponet(small_deeponet());
  const auto points = bar_points().points;
  auto stored = train::copy_parameters(*net);
  DeepOnet other(small_deeponet(), kBar);
  other.to(torch::kFloat64);
  EXPECT_THROW(other.values(points), UsageError) << "no readings yet";
  train::set_parameters(other, stored, "test");
  EXPECT_TRUE(torch::equal(other.values(points), net->values(points)));
  stored["branch_inputs"] = torch::zeros({7}, torch::kFloat64);
  EXPECT_THROW(train::set_parameters(other, stored, "test"), DataError);
}

TEST(ModelsDeepOnet, WeightsStayWhereTheyAreIfTheirShapeDoes) {
  // An optimiser has them as views of one buffer.
  const auto net = made_deeponet(small_deeponet());
  const auto weight = net->named_parameters()["branch0.weight"];
  const auto* before = weight.data_ptr();
  train::set_parameters(*net, train::copy_parameters(*net), "test");
  net->observe(six_readings());
  EXPECT_EQ(weight.data_ptr(), before);
}

TEST(ModelsDeepOnet, AnswersAndGradientsAreTheSameOnEveryDevice) {
  const auto at = bar_points();
  const auto run = [&](torch::Device device, torch::ScalarType type) {
    const auto net = made_deeponet(small_deeponet());
    net->to(device, type);
    const auto rows = net->forward(Jet::moving(at.points.to(device, type),
                                               at.directions.to(device, type),
                                               JetLayout({2, 2, 1})))
                          .rows();
    // As the balance of a loss asks for it, which adds to no gradient.
    const auto gradient = torch::autograd::grad(
        {rows.square().sum()}, {net->named_parameters()["branch0.weight"]});
    return std::vector<Tensor>{rows.detach().cpu().to(torch::kFloat64),
                               gradient[0].cpu().to(torch::kFloat64)};
  };
  const auto plain = run(torch::kCPU, torch::kFloat64);
  for (const auto& device : testing::devices()) {
    const auto ours = run(device, torch::kFloat32);
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(near(ours[i], plain[i], {1e-3, 1e-5})) << i << device;
    }
  }
}

}  // namespace
}  // namespace propagator::models
