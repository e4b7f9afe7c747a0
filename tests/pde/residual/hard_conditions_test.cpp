#include "propagator/pde/residual/hard_conditions.h"
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

TEST(PdeHardConditions, AreMetExactlyAndDerivativesAreThoseOfTheAnswer) {
  const auto waves =
      problem({"at t=1: u = sin(pi*x)", "at t=1: 2*u_t = x^2", "at t=1: v = 3",
               "on boundary: u = 0", "on boundary: v = 3"});
  const HardConditions values(waves);
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

TEST(PdeHardConditions, TheNetworkOutlivesItsProblem) {
  auto waves = std::make_unique<pde::Problem>(
      problem({"at t=1: u = sin(pi*x)", "at t=1: 2*u_t = x^2",
               "at t=1: v = 3*t", "on boundary: u = 0", "on boundary: v = 3"}));
  auto values = std::make_unique<HardConditions>(*waves);
  const auto net = values->build_into(
      models::field_nets().at("pinn").options()->make({{0, 1}, {1, 3}, 2, 1}));
  net->initialise(5);
  const auto points = torch::linspace(0, 3, 10).view({5, 1, 2});
  const auto before = net->values(points);
  values.reset();
  waves.reset();
  EXPECT_TRUE(torch::equal(net->values(points), before));
}

TEST(PdeHardConditions, NoMotionAtFirst) {
  const auto still =
      problem({"at t=1: u = 1 + x", "at t=1: u_t = 0", "at t=1: v = 3",
               "on boundary: u = 0", "on boundary: v = 3"});
  const auto options = models::field_nets().at("pinn").options();
  const auto net =
      HardConditions(still).build_into(options->make({{0, 1}, {1, 3}, 2, 1}));
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

TEST(PdeHardConditions, ConditionsOfAnotherFormAreLeftToTheLoss) {
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
    const HardConditions values(odd);
    EXPECT_FALSE(values.has(odd.conditions[0])) << condition;
    const auto net =
        models::field_nets().at("pinn").options()->make({{0, 1}, {1, 3}, 1, 1});
    EXPECT_EQ(values.build_into(net), net) << condition;
  }
}

TEST(PdeHardConditions, FormulasThatNameTimeMeanTheFirst) {
  const auto moving =
      problem({"at t=1: u = sin(x - t)", "at t=1: exp(t)*u_t = -cos(x - t)",
               "at t=1: v = 3*t", "on boundary: u = 0", "on boundary: v = 3"});
  const HardConditions values(moving);
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

TEST(PdeHardConditions, WhatTheAnswerMustNotKeepIsLeftToTheLoss) {
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
    EXPECT_EQ(HardConditions(heat).has(condition), hard) << first;
    EXPECT_EQ(HardConditions(heat, {.corners = true}).has(condition),
              with_corners)
        << first;
  }
}

TEST(PdeHardConditions, AFieldWithTwoFirstValuesIsLeftToTheLoss) {
  const auto twice =
      problem({"at t=1: u = x", "at t=1: 2*u = 2*x", "at t=1: u_t = 0",
               "at t=1: v = 3", "on boundary: u = 0", "on boundary: v = 3"});
  const HardConditions values(twice);
  for (size_t n = 0; n < twice.conditions.size(); ++n) {
    EXPECT_EQ(values.has(twice.conditions[n]), n == 3) << n;
  }
}

// Values of a network with hard constraints at points (…, 2).
Tensor values_of(const pde::Problem& problem, const Tensor& points) {
  const auto net =
      HardConditions(problem, {.faces = true})
          .build_into(models::field_nets().at("pinn").options()->make(
              {{0, 1}, {0, 1}, 1, problem.time()}));
  net->initialise(5);
  net->to(torch::kFloat64);
  return net->values(points.unsqueeze(1)).flatten();
}

// Points (N, 2) whose one variable has a value and whose other one goes along
// the interval.
Tensor along(int64_t fixed, double value) {
  const auto s = torch::linspace(0, 1, 7, torch::kFloat64);
  const auto same = torch::full_like(s, value);
  return torch::stack({fixed == 0 ? same : s, fixed == 0 ? s : same}, -1);
}

TEST(PdeHardConditions, FacesThatMoveAreMetBesideTheBeginning) {
  const auto moving = pde::Problem::parse(
      {.domain = {"x in [0, 1]", "t in [0, 1]"},
       .fields = {"u"},
       .equations = {"u_tt = u_xx"},
       .conditions = {"at t=0: u = x + sin(pi*x)", "at t=0: u_t = x*(1 - x)",
                      "on x=0: 3*u = 3*t^2", "on x=1: u = cos(2*pi*t)"}});
  const HardConditions hard(moving, {.faces = true});
  for (const auto& condition : moving.conditions) {
    EXPECT_TRUE(hard.has(condition)) << condition.text;
  }
  const auto s = torch::linspace(0, 1, 7, torch::kFloat64);
  EXPECT_TRUE(near(values_of(moving, along(0, 0)), s * s, kExact));
  EXPECT_TRUE(
      near(values_of(moving, along(0, 1)), torch::cos(2 * M_PI * s), kExact));
  EXPECT_TRUE(
      near(values_of(moving, along(1, 0)), s + torch::sin(M_PI * s), kExact));
  const double h = 1e-6;
  const auto slope =
      (values_of(moving, along(1, h)) - values_of(moving, along(1, 0))) / h;
  EXPECT_TRUE(near(slope, s * (1 - s), {1e-4, 1e-4}));
  // Elsewhere the network decides.
  const auto inside = values_of(moving, along(1, 0.5));
  EXPECT_GT((inside - (s + torch::sin(M_PI * s))).abs().max().item<double>(),
            1e-2);
}

TEST(PdeHardConditions, FourSidesWithValuesOfTheirOwn) {
  const auto square = pde::Problem::parse(
      {.domain = {"x in [0, 1]", "y in [0, 1]"},
       .fields = {"u"},
       .equations = {"u_xx + u_yy = 1"},
       .conditions = {"on x=0: u = y^2", "on x=1: u = 1 + y^2*exp(y - 1)",
                      "on y=0: u = x", "on y=1: u = 1 + sin(pi*x/2)"}});
  const HardConditions hard(square, {.faces = true});
  for (const auto& condition : square.conditions) {
    EXPECT_TRUE(hard.has(condition)) << condition.text;
  }
  const auto s = torch::linspace(0, 1, 7, torch::kFloat64);
  EXPECT_TRUE(near(values_of(square, along(0, 0)), s * s, kExact));
  EXPECT_TRUE(near(values_of(square, along(0, 1)),
                   1 + s * s * torch::exp(s - 1), kExact));
  EXPECT_TRUE(near(values_of(square, along(1, 0)), s, kExact));
  EXPECT_TRUE(near(values_of(square, along(1, 1)), 1 + torch::sin(M_PI * s / 2),
                   kExact));
}

TEST(PdeHardConditions, DerivativesBehindFacesAreThoseOfTheAnswer) {
  const auto square =
      pde::Problem::parse({.domain = {"x in [0, 1]", "y in [0, 1]"},
                           .fields = {"u"},
                           .equations = {"u_xx + u_yy = 1"},
                           .conditions = {"on x=0: u = y^2", "on y=0: u = x"}});
  const auto net =
      HardConditions(square, {.faces = true})
          .build_into(models::field_nets().at("pinn").options()->make(
              {{0, 1}, {0, 1}, 1, -1}));
  net->initialise(5);
  net->to(torch::kFloat64);
  const Probe probe({{{0, {2, 0}}, {0, {1, 1}}, {0, {0, 1}}}, 2},
                    Derivatives::kHonest, kDouble);
  const auto points = testing::random({6, 1, 2}, "faces").to(torch::kFloat64);
  const auto at = probe.at(*net, points);
  const auto moved = [&](double dx, double dy) {
    return net->values(points + torch::tensor({dx, dy}, torch::kFloat64));
  };
  const double h = 1e-4;
  const auto here = moved(0, 0);
  const auto read = [&](std::vector<int64_t> orders) {
    return at.field({0, std::move(orders)}).value().flatten();
  };
  const testing::Tolerance differences{1e-6, 1e-6};
  EXPECT_TRUE(near(read({0, 1}),
                   ((moved(0, h) - moved(0, -h)) / (2 * h)).flatten(),
                   differences));
  EXPECT_TRUE(
      near(read({2, 0}),
           ((moved(h, 0) - 2 * here + moved(-h, 0)) / (h * h)).flatten(),
           differences));
  EXPECT_TRUE(
      near(read({1, 1}),
           ((moved(h, h) - moved(h, -h) - moved(-h, h) + moved(-h, -h)) /
            (4 * h * h))
               .flatten(),
           differences));
}

// Of faces that disagree with others where they meet, or give no field, the
// loss takes care.
TEST(PdeHardConditions, FacesThatCannotBeMet) {
  struct Case {
    std::vector<std::string> conditions;
    std::vector<bool> hard;
  };
  for (const auto& [conditions, hard] :
       {Case{{"at t=0: u = 1", "on x=0: u = 0", "on x=1: u = 1"},
             {true, false, true}},
        Case{{"at t=0: u = x", "on x=0: u = 0", "on x=1: u_x = 1"},
             {true, true, false}},
        Case{{"at t=0: u = x", "on x=0: u + u_x = 1", "on x=1: u = 1"},
             {true, false, true}},
        // Zero where a grid looks, and not between.
        Case{{"at t=0: u = 0", "on x=0: u = sin(10*pi*t)", "on x=1: u = 0"},
             {true, true, true}}}) {
    const auto heat =
        pde::Problem::parse({.domain = {"x in [0, 1]", "t in [0, 1]"},
                             .fields = {"u"},
                             .equations = {"u_t = u_xx"},
                             .conditions = conditions});
    const HardConditions chosen(heat, {.faces = true});
    for (size_t n = 0; n < hard.size(); ++n) {
      EXPECT_EQ(chosen.has(heat.conditions[n]), hard[n]) << conditions[n];
      EXPECT_EQ(HardConditions(heat).has(heat.conditions[n]), n == 0);
    }
  }
  const auto waved = pde::Problem::parse(
      {.domain = {"x in [0, 1]", "t in [0, 1]"},
       .fields = {"u"},
       .equations = {"u_t = u_xx"},
       .conditions = {"at t=0: u = 0", "on x=0: u = sin(10*pi*t)",
                      "on x=1: u = 0"}});
  const auto s = torch::linspace(0, 1, 7, torch::kFloat64);
  EXPECT_TRUE(
      near(values_of(waved, along(0, 0)), torch::sin(10 * M_PI * s), kExact));
}

}  // namespace
}  // namespace propagator::pde
