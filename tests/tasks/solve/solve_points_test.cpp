#include "propagator/tasks/solve/solve_points.h"

#include "propagator/core/error.h"
#include "propagator/models/pinn.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::kDouble;
using testing::near;

constexpr TimeWindows kWindows{.tokens = 3, .time = 1, .step = 0.01};

// A wave with two conditions on one face and a periodic one.
class TasksSolvePoints : public ::testing::Test {
 protected:
  SolvePoints points(int64_t slabs, int64_t seed, int64_t per_axis = 4) const {
    return {problem,
            conditions,
            {.per_axis = per_axis, .resample_every = 2, .adaptive = false},
            kWindows,
            slabs,
            seed,
            kDouble};
  }

  const pde::Problem problem =
      pde::Problem::parse({.domain = {"x in [0, 1]", "t in [0, 2]"},
                           .fields = {"u"},
                           .equations = {"u_tt = u_xx"},
                           .conditions = {"at t=0: u = sin(2*pi*x)",
                                          "at t=0: u_t = 0", "periodic x"}});
  const SolveConditions conditions{problem, HardConstraints::kNo};
  pde::Residuals residuals{problem, pde::Derivatives::kHonest, kDouble};
};

TEST(TasksTimeWindows, TokensFollowAPointThroughTime) {
  const auto points =
      torch::tensor({{0.25, 0.5}, {0.75, 1.0}}, torch::kFloat64);
  const auto windows = kWindows.of(points, kDouble);
  EXPECT_TRUE(near(
      windows[1],
      torch::tensor({{0.75, 1.0}, {0.75, 1.01}, {0.75, 1.02}}, torch::kFloat64),
      testing::kFloat64));
  EXPECT_TRUE(
      torch::equal(TimeWindows().of(points, kDouble), points.unsqueeze(1)));
}

TEST_F(TasksSolvePoints, AreDividedIntoSlabsOfTime) {
  EXPECT_FALSE(points(0, 7).slab_of().defined());
  auto divided = points(4, 7);
  auto net =
      models::field_nets().at("pinn").options()->make({{0, 0}, {1, 2}, 1, 1});
  for (const int64_t step : {0, 2}) {  // as drawn, and resampled
    divided.begin_step(*net, residuals, step);
    const auto t = divided.of(data::Split::kTrain).select(1, 0).select(1, 1);
    EXPECT_TRUE(
        torch::equal(divided.slab_of(), (t * 2).floor().to(torch::kInt64)))
        << step;
  }
}

TEST_F(TasksSolvePoints, AreResampledInPlaceAndRestored) {
  auto drawn = points(4, 7);
  const auto training = drawn.of(data::Split::kTrain);
  const auto start = drawn.faces()[0].windows;
  EXPECT_TRUE(start.is_same(drawn.faces()[1].windows));
  const auto before = training.clone(), start_before = start.clone();
  auto net =
      models::field_nets().at("pinn").options()->make({{0, 0}, {1, 2}, 1, 1});
  drawn.begin_step(*net, residuals, 1);
  EXPECT_TRUE(torch::equal(training, before));
  drawn.begin_step(*net, residuals, 2);
  EXPECT_FALSE(torch::equal(training, before));
  EXPECT_FALSE(torch::equal(start, start_before));
  EXPECT_TRUE(torch::equal(drawn.first_faces()[0].windows, start_before));

  auto other = points(4, 8);
  other.restore(drawn.state());
  EXPECT_TRUE(torch::equal(other.of(data::Split::kTrain), training));
  EXPECT_TRUE(torch::equal(other.faces()[1].windows, start));
  EXPECT_TRUE(
      torch::equal(other.faces()[2].opposite, drawn.faces()[2].opposite));
  EXPECT_TRUE(torch::equal(other.slab_of(), drawn.slab_of()));
  EXPECT_THROW(points(4, 7, /*per_axis=*/5).restore(drawn.state()), DataError);
}

TEST_F(TasksSolvePoints, AreRedrawnAtAnyStepButNotTwice) {
  auto drawn = points(4, 7);
  auto net =
      models::field_nets().at("pinn").options()->make({{0, 0}, {1, 2}, 1, 1});
  const auto now = [&] { return drawn.of(data::Split::kTrain).clone(); };
  drawn.begin_step(*net, residuals, 2);
  const auto second = now();
  EXPECT_TRUE(drawn.redraw(*net, residuals, 2));
  EXPECT_TRUE(torch::equal(now(), second));  // they are new already
  EXPECT_TRUE(drawn.redraw(*net, residuals, 3));
  const auto third = now();
  EXPECT_FALSE(torch::equal(third, second));
  // The same whoever draws them, and no regular ones.
  auto other = points(4, 7);
  EXPECT_TRUE(other.redraw(*net, residuals, 3));
  EXPECT_TRUE(torch::equal(other.of(data::Split::kTrain), third));
  other.begin_step(*net, residuals, 6);
  EXPECT_FALSE(torch::equal(other.of(data::Split::kTrain), third));
  SolvePoints fixed(problem, conditions, {.per_axis = 4, .resample_every = 0},
                    kWindows, 0, 7, kDouble);
  EXPECT_FALSE(fixed.redraw(*net, residuals, 3));
}

TEST_F(TasksSolvePoints, ValidationSeesAThinFront) {
  const auto in_front = [&](ValidationPoints where, int64_t per_axis) {
    const SolvePoints all(
        problem, conditions,
        {.per_axis = 4, .validation_per_axis = per_axis, .validation = where},
        {}, 0, 7, kDouble);
    const auto x = all.of(data::Split::kValidation).select(-1, 0).flatten();
    EXPECT_EQ(x.numel(), per_axis * per_axis);
    return ((x - 0.5).abs() < 0.005).sum().item<int64_t>();
  };
  EXPECT_EQ(in_front(ValidationPoints::kCentres, 20), 0);
  EXPECT_NEAR(in_front(ValidationPoints::kSobol, 101), 102, 10);
}

// Of a network that is zero the residual is the source, a thin line.
TEST_F(TasksSolvePoints, MoreCandidatesFindMoreOfAThinFront) {
  const auto thin = pde::Problem::parse(
      {.domain = {"x in [0, 1]", "t in [0, 1]"},
       .fields = {"u"},
       .equations = {"u_t = u_xx + exp(-((x - 0.5)/0.003)^2)"},
       .conditions = {"at t=0: u = 0", "on boundary: u = 0"}});
  const SolveConditions learned(thin, HardConstraints::kNo);
  const pde::Residuals left(thin, pde::Derivatives::kHonest, kDouble);
  models::PinnOptions pinn;
  pinn.width = 4;
  const auto net = pinn.make({{0, 0}, {1, 1}, 1, 1});
  net->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (auto& parameter : net->parameters()) parameter.zero_();
  const auto found = [&](int64_t candidates) {
    SolvePoints drawn(
        thin, learned,
        {.per_axis = 30, .resample_every = 1, .candidates = candidates}, {}, 0,
        7, kDouble);
    drawn.begin_step(*net, left, 1);
    const auto x = drawn.of(data::Split::kTrain).select(-1, 0);
    return ((x - 0.5).abs() < 0.005).sum().item<int64_t>();
  };
  EXPECT_GT(found(16), 3 * found(4));
}

}  // namespace
}  // namespace propagator::tasks
