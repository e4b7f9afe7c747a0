#include "propagator/pde/residual/periodic_embedding.h"
#include "propagator/models/field_net.h"

#include "propagator/pde/residual/residuals.h"
#include "testing.h"

namespace propagator::pde {
namespace {

using testing::near;

pde::Problem problem(const std::string& condition) {
  return pde::Problem::parse(
      {.domain = {"x in [-1, 3]", "t in [0, 1]"},
       .fields = {"u"},
       .equations = {"u_t = u_xx"},
       .conditions = {condition, "at t=0: u = sin(pi*x/2)"}});
}

TEST(PdePeriodicEmbedding, TheNetworkOutlivesItsProblem) {
  auto heat = std::make_unique<pde::Problem>(problem("periodic x"));
  auto embedding = std::make_unique<PeriodicEmbedding>(*heat);
  const auto net =
      embedding->embed(models::field_nets().at("pinn").options()->make(
          embedding->seen({{-1, 0}, {3, 1}, 1, 1})));
  net->initialise(3);
  const auto points = torch::linspace(-1, 3, 10).view({5, 1, 2});
  const auto before = net->values(points);
  embedding.reset();
  heat.reset();
  EXPECT_TRUE(torch::equal(net->values(points), before));
}

// All orders agree at the two ends, and away from them derivatives are those
// of the answer.
TEST(PdePeriodicEmbedding, TheAnswerIsPeriodicWithItsDerivatives) {
  const auto heat = problem("periodic x");
  const PeriodicEmbedding embedding(heat);
  EXPECT_TRUE(embedding.has(heat.conditions[0]));
  EXPECT_FALSE(embedding.has(heat.conditions[1]));
  const models::FieldDomain domain{{-1, 0}, {3, 1}, 1, 1};
  const auto seen = embedding.seen(domain);
  EXPECT_EQ(seen.low, (std::vector<double>{-1, 0, -1}));
  EXPECT_EQ(seen.high, (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(seen.time, 1);
  const auto net =
      embedding.embed(models::field_nets().at("pinn").options()->make(seen));
  net->initialise(3);
  net->to(torch::kFloat64);
  const Probe probe({{{0, {1, 0}}, {0, {2, 0}}}, 2}, Derivatives::kHonest,
                    {torch::kCPU, Precision::kFloat64});
  const auto t = torch::linspace(0, 1, 5, torch::kFloat64);
  const auto at = [&](double x) {
    return torch::stack({torch::full_like(t, x), t}, -1).unsqueeze(1);
  };
  const auto read = [&](double x, int64_t order) {
    return probe.at(*net, at(x))
        .field(Derivative{0, {order, 0}})
        .value()
        .flatten();
  };
  for (int64_t order = 0; order <= 2; ++order) {
    EXPECT_TRUE(near(read(-1, order), read(3, order), {1e-9, 1e-12})) << order;
    EXPECT_GT((read(-1, order) - read(0.5, order)).abs().min().item<double>(),
              1e-4)
        << order;
  }
  const double h = 1e-5;
  const auto difference =
      (net->values(at(1 + h)) - net->values(at(1 - h))).flatten() / (2 * h);
  EXPECT_TRUE(near(read(1, 1), difference, {1e-6, 1e-8}));
}

// Along time, a window's tokens on a circle lie in ever other directions from
// each other, though at one distance.
TEST(PdePeriodicEmbedding,
     RelativePositionsAroundTimeAreRefusedUnlessTheyAreDistances) {
  const auto again =
      pde::Problem::parse({.domain = {"x in [-1, 3]", "t in [0, 1]"},
                           .fields = {"u"},
                           .equations = {"u_t = u_xx + cos(2*pi*t)"},
                           .conditions = {"periodic t", "on boundary: u = 0"}});
  const PeriodicEmbedding embedding(again);
  const models::FieldDomain domain{{-1, 0}, {3, 1}, 1, 1};
  const auto seen = embedding.seen(domain);
  EXPECT_TRUE(seen.time_is_periodic);
  const auto of = [](const std::string& name) {
    return models::field_nets().at(name).options();
  };
  EXPECT_NO_THROW(of("spformer-rope")->validate(domain));
  EXPECT_THROW(of("spformer-rope")->validate(seen), ConfigError);
  for (const std::string name : {"spformer", "spformer-alibi"}) {
    EXPECT_NO_THROW(of(name)->validate(seen));
    const auto net = embedding.embed(of(name)->make(seen));
    net->initialise(3);
    net->to(torch::kFloat64);
    const auto windows =
        torch::tensor({{0.2, 0.3}, {0.2, 0.4}, {0.2, 0.5}}, torch::kFloat64)
            .unsqueeze(0);
    const auto step = torch::tensor({0.0, 1e-5}, torch::kFloat64);
    const Probe probe({{{0, {0, 1}}}, 2}, Derivatives::kHonest,
                      {torch::kCPU, Precision::kFloat64});
    EXPECT_TRUE(near(probe.at(*net, windows).field({0, {0, 1}}).value(),
                     (net->values(windows + step) - net->values(windows - step))
                             .squeeze(-1) /
                         2e-5,
                     {1e-6, 1e-8}))
        << name;
  }
}

TEST(PdePeriodicEmbedding, AConditionThatAsksForLessIsLeftToTheLoss) {
  EXPECT_TRUE(PeriodicEmbedding(problem("periodic x: u, u_x"))
                  .has(problem("periodic x").conditions[0]));
  const auto less = problem("periodic x: u");
  const PeriodicEmbedding embedding(less);
  EXPECT_FALSE(embedding.has(less.conditions[0]));
  const auto net =
      models::field_nets().at("pinn").options()->make({{-1, 0}, {3, 1}, 1, 1});
  EXPECT_EQ(embedding.embed(net), net);
}

// The equation keeps the jump of the slope that a bell's tail has at the ends.
TEST(PdePeriodicEmbedding, ABeginningWithAJumpOfTheSlopeIsNotSmoothed) {
  for (const auto& [first, smooth] :
       {std::pair("u = exp(-x^2)", false), std::pair("u = cos(pi*x)", true),
        std::pair("u = exp(-16*x^2)", false),
        std::pair("u = exp(-36*x^2)", true), std::pair("u = x^2", false)}) {
    const auto growth = pde::Problem::parse(
        {.domain = {"x in [-1, 1]", "t in [0, 1]"},
         .fields = {"u"},
         .equations = {"u_t = u*(1 - u)"},
         .conditions = {fmt::format("at t=0: {}", first), "periodic x"}});
    const auto& condition = growth.conditions[1];
    EXPECT_EQ(PeriodicEmbedding(growth, true).has(condition), smooth) << first;
    EXPECT_TRUE(PeriodicEmbedding(growth).has(condition)) << first;
  }
}

TEST(PdePeriodicEmbedding, ACornerThatTheEquationTakesAwayIsNoObstacle) {
  for (const auto& [equation, embedded] :
       {std::pair("u_t = 0.01*u_xx", true), std::pair("u_t = u_x", false),
        std::pair("u_tt = u_xx", false), std::pair("u_t = u*u_x + u_xxx", true),
        std::pair("u_tt + u_xxxx = 0", true)}) {
    std::vector<std::string> conditions{"periodic x",
                                        "at t=0: u = x^2*cos(pi*x)"};
    if (std::string_view(equation).starts_with("u_tt")) {
      conditions.push_back("at t=0: u_t = 0");
    }
    const auto begun =
        pde::Problem::parse({.domain = {"x in [-1, 1]", "t in [0, 1]"},
                             .fields = {"u"},
                             .equations = {equation},
                             .conditions = conditions});
    EXPECT_EQ(PeriodicEmbedding(begun, true).has(begun.conditions[0]), embedded)
        << equation;
  }
}

}  // namespace
}  // namespace propagator::pde
