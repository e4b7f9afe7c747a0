#include "propagator/pde/residual/initial_conditions.h"
#include "propagator/models/field_net.h"

#include "propagator/pde/residual/residuals.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::pde {
namespace {

using testing::kDouble;
using testing::near;
using torch::Tensor;

constexpr testing::Tolerance kExact{1e-12, 1e-12};

pde::Problem problem(const std::vector<std::string>& conditions) {
  return pde::Problem::parse({.domain = {"x in [0, 1]", "t in [1, 3]"},
                              .fields = {"u, v"},
                              .equations = {"u_tt = u_xx + v", "v_t = v_xx"},
                              .conditions = conditions});
}

TEST(PdeInitialConditions, AreMetExactlyAndDerivativesAreThoseOfTheAnswer) {
  const auto waves =
      problem({"at t=1: u = sin(pi*x)", "at t=1: 2*u_t = x^2", "at t=1: v = 3",
               "on boundary: u = 0", "on boundary: v = 3"});
  const HardInitialConditions values(waves);
  for (size_t n = 0; n < waves.conditions.size(); ++n) {
    EXPECT_EQ(values.has(waves.conditions[n]), n < 3) << n;
  }
  const auto options = models::field_nets().at("pinn").options();
  const auto net = values.build_into(options->make({{0, 1}, {1, 3}, 2, 1}));
  net->initialise(5);
  net->to(torch::kFloat64);
  const Probe probe({{{0, {0, 1}}, {0, {2, 0}}, {1, {0, 1}}}, 2},
                    Derivatives::kHonest, kDouble);
  const auto x = torch::linspace(0.1, 0.9, 5, torch::kFloat64);
  const auto at = [&](double t) {
    return torch::stack({x, torch::full_like(x, t)}, -1).unsqueeze(1);
  };
  const auto start = probe.at(*net, at(1));
  const auto read = [](const autodiff::Environment& e, int64_t field,
                       std::vector<int64_t> orders) {
    return e.field(Derivative{field, std::move(orders)}).value().flatten();
  };
  EXPECT_TRUE(near(read(start, 0, {0, 0}), torch::sin(M_PI * x), kExact));
  EXPECT_TRUE(near(read(start, 0, {0, 1}), x * x / 2, kExact));
  EXPECT_TRUE(near(read(start, 1, {0, 0}), torch::full_like(x, 3), kExact));
  EXPECT_TRUE(near(read(start, 0, {2, 0}), -M_PI * M_PI * torch::sin(M_PI * x),
                   kExact));
  // Later, against differences of its own values.
  const double h = 1e-5;
  const auto later = probe.at(*net, at(2));
  for (int64_t f = 0; f < 2; ++f) {
    const auto difference = (net->values(at(2 + h)) - net->values(at(2 - h)))
                                .select(-1, f)
                                .flatten() /
                            (2 * h);
    EXPECT_TRUE(near(read(later, f, {0, 1}), difference, {1e-6, 1e-8})) << f;
  }
  EXPECT_GT((read(later, 1, {0, 0}) - 3).abs().max().item<double>(), 1e-3);
}

TEST(PdeInitialConditions, TheNetworkOutlivesItsProblem) {
  auto waves = std::make_unique<pde::Problem>(
      problem({"at t=1: u = sin(pi*x)", "at t=1: 2*u_t = x^2",
               "at t=1: v = 3*t", "on boundary: u = 0", "on boundary: v = 3"}));
  auto values = std::make_unique<HardInitialConditions>(*waves);
  const auto net = values->build_into(
      models::field_nets().at("pinn").options()->make({{0, 1}, {1, 3}, 2, 1}));
  net->initialise(5);
  const auto points = torch::linspace(0, 3, 10).view({5, 1, 2});
  const auto before = net->values(points);
  values.reset();
  waves.reset();
  EXPECT_TRUE(torch::equal(net->values(points), before));
}

TEST(PdeInitialConditions, NoMotionAtFirst) {
  const auto still =
      problem({"at t=1: u = 1 + x", "at t=1: u_t = 0", "at t=1: v = 3",
               "on boundary: u = 0", "on boundary: v = 3"});
  const auto options = models::field_nets().at("pinn").options();
  const auto net = HardInitialConditions(still).build_into(
      options->make({{0, 1}, {1, 3}, 2, 1}));
  net->initialise(5);
  net->to(torch::kFloat64);
  const Probe probe({{{0, {0, 1}}}, 2}, Derivatives::kHonest, kDouble);
  const auto x = torch::linspace(0.1, 0.9, 5, torch::kFloat64);
  const auto start =
      probe.at(*net, torch::stack({x, torch::ones_like(x)}, -1).unsqueeze(1));
  EXPECT_TRUE(near(start.field({0, {0, 0}}).value().flatten(), 1 + x, kExact));
  EXPECT_TRUE(near(start.field({0, {0, 1}}).value().flatten(),
                   torch::zeros_like(x), kExact));
}

TEST(PdeInitialConditions, ConditionsOfAnotherFormAreLeftToTheLoss) {
  for (const char* condition :
       {"at t=1: u_x = 0", "at t=1: u + u_t = 1", "at t=1: u^2 = 1",
        "at t=1: x*u = 1", "at t=1: u_t = 1", "at t=1: 1/u = 1 + x",
        "at t=1: log(u) = x"}) {
    // Time is no more than a parameter here, so that any condition will do.
    const auto odd =
        pde::Problem::parse({.domain = {"x in [0, 1]", "t in [1, 3]"},
                             .fields = {"u"},
                             .equations = {"u_xx = x"},
                             .conditions = {condition, "on boundary: u = 0"}});
    const HardInitialConditions values(odd);
    EXPECT_FALSE(values.has(odd.conditions[0])) << condition;
    const auto net =
        models::field_nets().at("pinn").options()->make({{0, 1}, {1, 3}, 1, 1});
    EXPECT_EQ(values.build_into(net), net) << condition;
  }
}

TEST(PdeInitialConditions, FormulasThatNameTimeMeanTheFirst) {
  const auto moving =
      problem({"at t=1: u = sin(x - t)", "at t=1: exp(t)*u_t = -cos(x - t)",
               "at t=1: v = 3*t", "on boundary: u = 0", "on boundary: v = 3"});
  const HardInitialConditions values(moving);
  EXPECT_TRUE(values.has(moving.conditions[1]));
  const auto net = values.build_into(
      models::field_nets().at("pinn").options()->make({{0, 1}, {1, 3}, 2, 1}));
  net->initialise(5);
  net->to(torch::kFloat64);
  const Probe probe({{{0, {0, 1}}, {0, {2, 0}}}, 2}, Derivatives::kHonest,
                    kDouble);
  const auto x = torch::linspace(0.1, 0.9, 5, torch::kFloat64);
  const auto start =
      probe.at(*net, torch::stack({x, torch::ones_like(x)}, -1).unsqueeze(1));
  const auto read = [&](int64_t field, std::vector<int64_t> orders) {
    return start.field({field, std::move(orders)}).value().flatten();
  };
  EXPECT_TRUE(near(read(0, {0, 0}), torch::sin(x - 1), kExact));
  EXPECT_TRUE(near(read(0, {0, 1}), -torch::cos(x - 1) / M_E, kExact));
  EXPECT_TRUE(near(read(0, {2, 0}), -torch::sin(x - 1), kExact));
  EXPECT_TRUE(near(read(1, {0, 0}), torch::full_like(x, 3), kExact));
}

TEST(PdeInitialConditions, WhatTheAnswerMustNotKeepIsLeftToTheLoss) {
  struct Case {
    const char *first, *other;
    bool hard, with_corners;
  };
  for (const auto& [first, other, hard, with_corners] :
       {Case{"u = 1 - abs(x)", "on boundary: u = 0", false, true},
        Case{"u = x*sign(x - 0.5)", "on boundary: u = 0", false, true},
        // No slope at x = 0.
        Case{"u = sqrt(x)", "on boundary: u = 0", false, false},
        Case{"u = sqrt(x + 1)", "on boundary: u = 0", true, true},
        // Corners in disguise.
        Case{"u = sqrt((x - 0.3)^2)", "on boundary: u = 0", false, true},
        Case{"u = (x^2 - 0.6*x + 0.09)^1.5", "on boundary: u = 0", false, true},
        // On a ring: with a jump of the slope, of the value, and without.
        Case{"u = 4*x*(1 - x)", "periodic x", false, true},
        Case{"u = x", "periodic x", false, true},
        Case{"u = cos(2*pi*x)", "periodic x", true, true},
        // It would come back to them.
        Case{"u = 1", "periodic t", false, false}}) {
    const auto heat = pde::Problem::parse(
        {.domain = {"x in [0, 1]", "t in [0, 1]"},
         .fields = {"u"},
         .equations = {"u_t = u_xx"},
         .conditions = {fmt::format("at t=0: {}", first), other}});
    const auto& condition = heat.conditions[0];
    EXPECT_EQ(HardInitialConditions(heat).has(condition), hard) << first;
    EXPECT_EQ(HardInitialConditions(heat, true).has(condition), with_corners)
        << first;
  }
}

TEST(PdeInitialConditions, AFieldWithTwoFirstValuesIsLeftToTheLoss) {
  const auto twice =
      problem({"at t=1: u = x", "at t=1: 2*u = 2*x", "at t=1: u_t = 0",
               "at t=1: v = 3", "on boundary: u = 0", "on boundary: v = 3"});
  const HardInitialConditions values(twice);
  for (size_t n = 0; n < twice.conditions.size(); ++n) {
    EXPECT_EQ(values.has(twice.conditions[n]), n == 3) << n;
  }
}

}  // namespace
}  // namespace propagator::pde
