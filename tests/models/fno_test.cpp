#include "propagator/models/fno.h"

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

// The first so many of three axes, with two fields.
FieldDomain box_of(int64_t axes) {
  FieldDomain domain{{0, -1, 80}, {2, 1, 90}, 2, axes - 1};
  domain.low.resize(static_cast<size_t>(axes));
  domain.high.resize(static_cast<size_t>(axes));
  return domain;
}

FnoOptions small_fno() {
  FnoOptions options;
  options.grid = {"8"};
  options.modes = {"2"};
  options.width = 3;
  options.layers = 2;
  return options;
}

Tensor inside(const FieldDomain& domain, int64_t count,
              const std::string& name) {
  const auto low = torch::tensor(domain.low, torch::kFloat64);
  const auto high = torch::tensor(domain.high, torch::kFloat64);
  return low + (high - low) * random({count, domain.variables()}, name).abs();
}

autodiff::Observations nine_readings(const FieldDomain& domain) {
  auto readings = random({9, 2}, "readings");
  readings[4][1] = std::nan("");
  return {inside(domain, 9, "places"), readings};
}

// With larger complex weights than the first ones, so that they count.
std::shared_ptr<Fno> made_fno(const FnoOptions& options,
                              const FieldDomain& domain) {
  auto net = std::make_shared<Fno>(options, domain);
  net->to(torch::kFloat64);
  net->initialise(1);
  const torch::NoGradGuard no_grad;
  for (auto& item : net->named_parameters()) {
    if (!item.value().requires_grad()) continue;
    item.value().add_(0.2 * random(item.value().sizes(), item.key()));
  }
  net->observe(nine_readings(domain));
  return net;
}

testing::MovingPoints moving_in(const FieldDomain& domain) {
  const auto axes = domain.variables();
  return {inside(domain, 6, "points").view({3, 2, axes}),
          random({2, axes}, "directions")};
}

TEST(ModelsFno, ParameterCountIsThatOfTheFormula) {
  for (const int64_t axes : {1, 2, 3}) {
    for (const int64_t width : {3, 8}) {
      auto options = small_fno();
      options.width = width;
      const auto net = options.make(box_of(axes));
      const int64_t kept = 1 << (2 * axes);  // 2^D Π m with m = 2
      EXPECT_EQ(nn::parameter_count(*net),
                (2 * 2 + axes + 1) * width +
                    2 * (kept * width * width + (width + 1) * width) +
                    4 * (width + 1) * width + (4 * width + 1) * 2);
    }
  }
  // The PGT paper's 2.36 M on the wake.
  FnoOptions options;
  options.modes = {"6", "4", "3"};
  const auto wake = options.make({{0, 0, 0}, {1, 1, 1}, 3, 2});
  EXPECT_EQ(nn::parameter_count(*wake), 2368451);
  EXPECT_EQ(options.smoothness(), 2);
  EXPECT_TRUE(options.needs_readings());
}

TEST(ModelsFno, DerivativesAndGradientsAreThoseOfReverseMode) {
  for (const int64_t axes : {1, 2, 3}) {
    const auto domain = box_of(axes);
    const auto net = made_fno(small_fno(), domain);
    const auto map = testing::jet_map(*net);
    const auto at = moving_in(domain);
    EXPECT_TRUE(testing::derivatives_are_nested(map, at, 2, {1e-9, 1e-9}))
        << axes;
    EXPECT_TRUE(testing::derivatives_are_differences(map, at, 2, {1e-4, 1e-5}))
        << axes;
    EXPECT_TRUE(
        testing::parameter_gradients_are_nested(*net, map, at, 2, {1e-8, 1e-9}))
        << axes;
  }
}

TEST(ModelsFno, ReadingsGoToTheNearestNodesAsMeans) {
  // Nodes at -1, 0, 1, 2, 3 of [0, 2].
  auto options = small_fno();
  options.grid = {"5"};
  const FieldDomain rod{{0}, {2}, 2, -1};
  Fno net(options, rod);
  net.to(torch::kFloat64);
  const double none = std::nan("");
  net.observe({torch::tensor({{0.1}, {0.3}, {1.9}, {0.0}}, torch::kFloat64),
               torch::tensor({{1., none}, {3., none}, {5., 6.}, {none, none}},
                             torch::kFloat64)});
  const auto expected = torch::tensor({{0., 0., 0., 0.},
                                       {2., 0., 1., 0.},
                                       {0., 0., 0., 0.},
                                       {5., 6., 1., 1.},
                                       {0., 0., 0., 0.}},
                                      torch::kFloat64);
  EXPECT_TRUE(near(net.named_parameters()["grid_readings"], expected,
                   testing::kFloat64));
}

TEST(ModelsFno, AReadingAndItsAbsenceCountAndTheirOrderDoesNot) {
  const auto domain = box_of(2);
  const auto net = made_fno(small_fno(), domain);
  const auto points = moving_in(domain).points;
  const auto before = net->values(points);
  EXPECT_TRUE(torch::isfinite(before).all().item<bool>());
  const auto off = [&](const autodiff::Observations& read) {
    net->observe(read);
    return (net->values(points) - before).abs().max().item<double>();
  };
  auto read = nine_readings(domain);
  const auto order = torch::tensor({8, 2, 0, 3, 1, 5, 4, 7, 6});
  EXPECT_LT(off({read.points.index_select(0, order),
                 read.readings.index_select(0, order)}),
            1e-12);
  read.readings[0][0] += 1;
  EXPECT_GT(off(read), 1e-6);
  read = nine_readings(domain);
  read.readings[4][1] = 0;
  EXPECT_GT(off(read), 1e-6) << "a zero that was read is not none";
}

TEST(ModelsFno, WhatIsHeldGivesTheSameBits) {
  const auto domain = box_of(3);
  const auto net = made_fno(small_fno(), domain);
  const auto points = moving_in(domain).points;
  const auto before = net->values(points);
  {
    const auto held = net->hold();
    EXPECT_TRUE(torch::equal(net->values(points), before));
    EXPECT_EQ(net->hold(), nullptr) << "once is enough";
    const torch::NoGradGuard no_grad;
    net->named_parameters()["out.weight"].mul_(2);
    EXPECT_TRUE(torch::equal(net->values(points), before));
  }
  EXPECT_FALSE(torch::equal(net->values(points), before));
}

TEST(ModelsFno, ItsFileHasTheReadings) {
  const auto domain = box_of(2);
  const auto net = made_fno(small_fno(), domain);
  const auto points = moving_in(domain).points;
  auto stored = train::copy_parameters(*net);
  Fno other(small_fno(), domain);
  other.to(torch::kFloat64);
  EXPECT_THROW(other.values(points), UsageError) << "no readings yet";
  train::set_parameters(other, stored, "test");
  EXPECT_TRUE(torch::equal(other.values(points), net->values(points)));
  stored["grid_readings"] = torch::zeros({8, 7, 4}, torch::kFloat64);
  EXPECT_THROW(train::set_parameters(other, stored, "test"), DataError);
}

TEST(ModelsFno, AnswersAreTheSameOnEveryDevice) {
  for (const int64_t axes : {1, 2, 3}) {
    const auto domain = box_of(axes);
    const auto at = moving_in(domain);
    const auto run = [&](torch::Device device, torch::ScalarType type) {
      const auto net = made_fno(small_fno(), domain);
      net->to(device, type);
      const auto rows = net->forward(Jet::moving(at.points.to(device, type),
                                                 at.directions.to(device, type),
                                                 JetLayout({2, 1})))
                            .rows();
      rows.square().sum().backward();
      return std::vector<Tensor>{
          rows.detach().cpu().to(torch::kFloat64),
          net->named_parameters()["spectral0.weight"].grad().cpu().to(
              torch::kFloat64)};
    };
    const auto plain = run(torch::kCPU, torch::kFloat64);
    for (const auto& device : testing::devices()) {
      const auto ours = run(device, torch::kFloat32);
      for (size_t i = 0; i < plain.size(); ++i) {
        const double size = plain[i].abs().max().item<double>();
        EXPECT_TRUE(near(ours[i] / size, plain[i] / size, {1e-3, 1e-4}))
            << i << " on " << device;
      }
    }
  }
}

TEST(ModelsFno, OptionsSayWhatIsWrong) {
  const auto domain = box_of(2);
  const auto wrong = [&](auto&& change) {
    auto options = small_fno();
    change(options);
    return testing::thrown<ConfigError>([&] { options.validate(domain); });
  };
  EXPECT_NE(wrong([](FnoOptions& o) {
              o.modes = {"5"};
            }).find("8 nodes have at most 4 modes, got 5"),
            std::string::npos);
  EXPECT_NE(wrong([](FnoOptions& o) {
              o.grid = {"8", "8", "8"};
            }).find("one for each of the 2 variables"),
            std::string::npos);
  EXPECT_NE(wrong([](FnoOptions& o) { o.grid = {"many"}; }).find("many"),
            std::string::npos);
  wrong([](FnoOptions& o) { o.grid = {"3"}; });
  wrong([](FnoOptions& o) { o.grid = {"65536"}; });
  wrong([](FnoOptions& o) { o.grid = {}; });
  auto options = small_fno();
  options.grid = {"8", "12"};
  EXPECT_NO_THROW(options.validate(domain));
  EXPECT_EQ(options.nodes_along(2), (std::vector<int64_t>{8, 12}));
}

}  // namespace
}  // namespace propagator::models
