#include "propagator/pde/residual/slab_chain.h"

#include <torch/utils.h>

#include "propagator/models/field_net.h"
#include "propagator/pde/residual/hard_conditions.h"
#include "propagator/pde/residual/residuals.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::pde {
namespace {

using testing::kDouble;
using testing::near;
using torch::Tensor;

constexpr testing::Tolerance kExact{1e-12, 1e-12};

// One field of second order in time, one of first, one of none.
Problem problem() {
  return Problem::parse(
      {.domain = {"x in [0, 1]", "t in [1, 3]"},
       .fields = {"u, v, p"},
       .equations = {"u_tt = u_xx + v", "v_t = v_xx + p", "p_xx = u"},
       .conditions = {"at t=1: u = sin(pi*x)", "at t=1: u_t = x*(1 - x)",
                      "at t=1: v = 2 + x", "on x=0: u = 0", "on x=1: u = 0",
                      "on x=0: v = t + 1", "on boundary: p = t*x"}});
}

// With random networks and ends of slabs at 1.5 and 2.25.
class PdeSlabChain : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::shared_ptr<models::FieldNet>> networks;
    for (int n = 0; n < 4; ++n) {
      networks.push_back(models::field_nets().at("pinn").options()->make(
          {{0, 1}, {1, 3}, 3, 1}));
    }
    chain = HardConditions(given, {.faces = true})
                .build_into({1, {1, 3}, orders}, std::move(networks));
    chain->to(torch::kFloat64);
    chain->initialise(5);
    chain->restart(1.5, 6);
    chain->finish(2.25);
    change_weights();
    chain->finish(3);
    change_weights();
  }
  void change_weights() const {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : chain->parameters()) {
      if (parameter.requires_grad()) parameter.mul_(1.3).add_(0.05);
    }
  }
  static Tensor at(double t) {
    const auto x = torch::linspace(0, 1, 7, torch::kFloat64);
    return torch::stack({x, torch::full_like(x, t)}, -1).unsqueeze(1);
  }

  const Problem given = problem();
  std::vector<int64_t> orders{2, 1, 0};
  std::shared_ptr<SlabChain> chain;
  const Probe probe{{{{0, {0, 1}}, {0, {2, 0}}, {1, {0, 1}}, {1, {1, 0}}}, 2},
                    Derivatives::kHonest,
                    kDouble};
};

Tensor read(const autodiff::Environment& e, int64_t field,
            std::vector<int64_t> orders) {
  return e.field(Derivative{field, std::move(orders)}).value().flatten();
}

TEST_F(PdeSlabChain, ASlabBeginsAsTheOneBeforeEnds) {
  chain->eval();
  const double near_end = 1e-9;
  for (const double end : {1.5, 2.25}) {
    const auto before = probe.at(*chain, at(end - near_end));
    const auto after = probe.at(*chain, at(end));
    for (const auto& [field, derivative] :
         {std::pair<int64_t, std::vector<int64_t>>{0, {0, 0}},
          {0, {0, 1}},
          {0, {2, 0}},
          {1, {0, 0}},
          {1, {1, 0}}}) {
      EXPECT_TRUE(near(read(after, field, derivative),
                       read(before, field, derivative), {1e-6, 1e-6}))
          << end << " " << field;
    }
    // No more than the conditions at first give goes on.
    EXPECT_GT((read(after, 1, {0, 1}) - read(before, 1, {0, 1}))
                  .abs()
                  .max()
                  .item<double>(),
              1e-3);
  }
}

TEST_F(PdeSlabChain, ConstraintsHoldInEverySlab) {
  chain->eval();
  for (const double t : {1.2, 1.5, 2.0, 2.9}) {
    const auto fields = chain->values(at(t)).squeeze(1);
    const auto zero = torch::zeros({1}, torch::kFloat64);
    EXPECT_TRUE(near(fields[0][0].view({1}), zero, kExact)) << t;
    EXPECT_TRUE(near(fields[6][0].view({1}), zero, kExact)) << t;
    EXPECT_TRUE(near(fields[0][1].view({1}), zero + t + 1, kExact)) << t;
    EXPECT_TRUE(near(fields[0][2].view({1}), zero, kExact)) << t;
    EXPECT_TRUE(near(fields[6][2].view({1}), zero + t, kExact)) << t;
  }
  const auto start = probe.at(*chain, at(1));
  const auto x = torch::linspace(0, 1, 7, torch::kFloat64);
  EXPECT_TRUE(near(read(start, 0, {0, 0}), torch::sin(M_PI * x), kExact));
  EXPECT_TRUE(near(read(start, 0, {0, 1}), x * (1 - x), kExact));
}

TEST_F(PdeSlabChain, DerivativesAreThoseOfTheAnswer) {
  chain->eval();
  const double h = 1e-5;
  for (const double t : {1.3, 1.8, 2.6}) {
    const auto here = probe.at(*chain, at(t));
    const auto differences =
        (chain->values(at(t + h)) - chain->values(at(t - h))) / (2 * h);
    for (int64_t f = 0; f < 2; ++f) {
      EXPECT_TRUE(near(read(here, f, {0, 1}),
                       differences.select(-1, f).flatten(), {1e-6, 1e-7}))
          << t << " " << f;
    }
  }
}

TEST_F(PdeSlabChain, PointsOfAllSlabsAreAskedAtOnceOrOneByOne) {
  chain->eval();
  std::vector<Tensor> windows;
  for (const double t : {2.9, 1.2, 1.5, 2.3, 1.0}) windows.push_back(at(t));
  const auto all = chain->values(torch::cat(windows));
  for (size_t n = 0; n < windows.size(); ++n) {
    EXPECT_TRUE(near(all.narrow(0, static_cast<int64_t>(n) * 7, 7),
                     chain->values(windows[n]), kExact));
  }
}

// What is kept of the slab before is that of the points that are asked for.
TEST_F(PdeSlabChain, TrainingAnswersAsATestDoes) {
  auto points = at(2.4);
  for (int n = 0; n < 5; ++n) {
    chain->train();
    chain->values(points);
    chain->values(at(2.5 + 0.1 * n));
    const auto answer = chain->values(points);
    chain->eval();
    EXPECT_TRUE(torch::equal(chain->values(points), answer));
    points.select(-1, 1).add_(0.05);  // in place, as new points are drawn
    points.select(-1, 0).mul_(0.9);
  }
}

TEST_F(PdeSlabChain, AFileOfTheModelKnowsItsSlabs) {
  chain->eval();
  const auto expected = chain->values(at(2));
  std::vector<std::shared_ptr<models::FieldNet>> networks;
  for (int n = 0; n < 4; ++n) {
    networks.push_back(models::field_nets().at("pinn").options()->make(
        {{0, 1}, {1, 3}, 3, 1}));
  }
  const auto other = HardConditions(given, {.faces = true})
                         .build_into({1, {1, 3}, orders}, std::move(networks));
  other->to(torch::kFloat64);
  other->eval();
  const torch::NoGradGuard no_grad;
  const auto from = chain->named_parameters();
  for (auto& item : other->named_parameters()) {
    item.value().copy_(from[item.key()]);
  }
  EXPECT_EQ(other->finished(), 2);
  EXPECT_DOUBLE_EQ(other->slab().low, 2.25);
  EXPECT_TRUE(torch::equal(other->values(at(2)), expected));
}

}  // namespace
}  // namespace propagator::pde
