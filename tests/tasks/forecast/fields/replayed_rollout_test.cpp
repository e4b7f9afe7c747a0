#include "propagator/tasks/forecast/fields/replayed_rollout.h"

#include <torch/utils.h>

#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::near;
using testing::random;

class TasksReplayedRollout : public ::testing::TestWithParam<const char*> {
 protected:
  // Two channels on 8 x 8 nodes, one axis periodic, and a number of each case.
  static std::shared_ptr<models::FieldForecaster> forecaster() {
    const models::FrameShape shape{
        .periodic = {true, false}, .channels = 2, .given = 3, .conditions = 1};
    const auto options = models::frame_nets().at(GetParam()).options();
    config::Schema schema;
    options->describe(schema);
    schema.find("width")->set("8");
    options->settle(shape, {8, 8});
    auto model = std::make_shared<models::FieldForecaster>(
        options->make(shape), models::Answer::kChange, 1);
    model->initialise(3);
    model->eval();
    return model;
  }
};

// From the fourth call of a shape on one graph, where there is a GPU: of other
// cases, and while another shape comes in between.
TEST_P(TasksReplayedRollout, IsTheRollout) {
  const torch::NoGradGuard no_grad;
  const auto model = forecaster();
  for (const auto& device : testing::devices()) {
    model->to(device);
    ReplayedRollout replayed(*model, {.device = device});
    for (int n = 0; n < 12; ++n) {
      const auto given =
          (random({2, 3, 8, 8, 2}, "given") + n).to(device, torch::kFloat32);
      const models::Told told(torch::full({2, 1}, n, given.options()));
      const int64_t steps = 2 + n % 2;
      int64_t done = 0;
      const auto answer =
          replayed(given, told, steps, [&](int64_t frames) { done = frames; });
      EXPECT_TRUE(
          near(answer, model->rollout(given, told, steps), {1e-5, 1e-6}))
          << device << ", call " << n;
      EXPECT_EQ(done, steps);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tasks, TasksReplayedRollout,
                         ::testing::Values("fno", "cnn", "unet", "conv_lstm",
                                           "space_time"));

}  // namespace
}  // namespace propagator::tasks
