#include "propagator/tasks/forecast/plate_guard.h"

#include "testing.h"

namespace propagator::tasks {
namespace {

physics::HeatPlateOptions small_plate(physics::TimeStep step) {
  physics::HeatPlateOptions plate;
  plate.rows = 6;
  plate.cols = 7;
  plate.frames = 9;
  plate.time_step = step;
  return plate;
}

class TasksPlateGuard : public ::testing::TestWithParam<physics::TimeStep> {
 protected:
  physics::HeatPlateOptions plate = small_plate(GetParam());
  physics::PlateCases cases = physics::draw_cases(plate, 3, 0, 4);
  torch::Tensor frames = physics::solve(plate, cases);

  Guard guard(const torch::Tensor& answer) const {
    return PlateGuard(plate).guard(answer.narrow(1, 0, 3), cases.alpha, answer);
  }
};

TEST_P(TasksPlateGuard, FindsNothingWrongWithASimulation) {
  const auto said = guard(frames);
  EXPECT_EQ(said.outside, "");
  ASSERT_TRUE(said.residual);
  EXPECT_LT(*said.residual, 1e-12);
}

TEST_P(TasksPlateGuard, FindsAPlateThatStandsStillAsWrongAsItsChanges) {
  const auto still = frames.narrow(1, 2, 1).expand_as(frames);
  EXPECT_NEAR(guard(still).residual.value(), 1, 1e-12);
}

TEST_P(TasksPlateGuard, LooksAtNoFrameThatWasGiven) {
  auto noisy = frames.clone();
  noisy.narrow(1, 0, 2).uniform_(0, 1);
  EXPECT_LT(guard(noisy).residual.value(), 1e-12);
}

TEST_P(TasksPlateGuard, NamesWhatIsOutsideOfTheTrainingData) {
  const auto said = guard(frames + 1);
  ASSERT_TRUE(said.outside);
  EXPECT_NE(said.outside->find("trained from 0 to 1"), std::string::npos);
  cases.alpha[1] = 0.2;
  EXPECT_EQ(guard(frames).outside->substr(0, 10), "alpha from");
}

INSTANTIATE_TEST_SUITE_P(TasksPlateGuard, TasksPlateGuard,
                         ::testing::Values(physics::TimeStep::kCfl,
                                           physics::TimeStep::kFixed));

// The diffusivity decides how fast heat spreads, and nobody has said it.
TEST(TasksPlateGuardAlone, HasNoResidualWithoutADiffusivityThatMatters) {
  const auto plate = small_plate(physics::TimeStep::kFixed);
  const auto cases = physics::draw_cases(plate, 3, 0, 2);
  const auto frames = physics::solve(plate, cases);
  const auto said = PlateGuard(plate).guard(frames.narrow(1, 0, 3), {}, frames);
  EXPECT_EQ(said.outside, "");
  EXPECT_FALSE(said.residual);
}

}  // namespace
}  // namespace propagator::tasks
