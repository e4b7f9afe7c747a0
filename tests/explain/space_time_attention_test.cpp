#include "propagator/explain/space_time_attention.h"

#include <torch/utils.h>

#include <limits>

#include "propagator/core/error.h"
#include "propagator/explain/attention_maps.h"
#include "propagator/models/frame_cnn.h"
#include "propagator/models/space_time.h"
#include "testing.h"

namespace propagator::explain {
namespace {

using propagator::testing::near;
using propagator::testing::random;
using torch::Tensor;

struct Patches {
  Patches() {
    const models::FrameShape shape{.periodic = {true, true}, .given = 3};
    models::SpaceTimeOptions options;
    options.width = 16;
    options.layers = 2;
    options.heads = 2;
    options.patch = 2;
    options.memory = 2;
    options.settle(shape, {8, 4});
    net = std::make_shared<models::SpaceTime>(options, shape);
    net->initialise(1);
    net->to(torch::kFloat64);
    subject.window = random({3, 8, 4, 1}, "window");
    subject.axes = {{.label = "x", .first = 0, .last = 1},
                    {.label = "y", .first = 0, .last = 1}};
    subject.channels = {"u"};
    subject.step = [this](const Tensor& windows) {
      return net->forward(windows, {}).select(1, 0);
    };
  }
  void set_to_zero(const std::string& ending) {
    const torch::NoGradGuard no_grad;
    for (auto& item : net->named_parameters()) {
      if (item.key().ends_with(ending)) item.value().zero_();
    }
  }
  std::shared_ptr<models::SpaceTime> net;
  tasks::StepSubject subject;
};

TEST(ExplainSpaceTimeAttention, WeightsAreThoseOfOnePatch) {
  Patches patches;
  const torch::NoGradGuard no_grad;
  const auto before = patches.subject.step(patches.subject.window.unsqueeze(0));
  const auto found =
      space_time_attention(*patches.net, patches.subject, {5, 3});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->patches, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(found->query, (std::vector<int64_t>{2, 1}));
  EXPECT_TRUE(near(found->space.flatten(1).sum(1),
                   torch::ones({2}, torch::kFloat64), testing::kFloat64));
  EXPECT_TRUE(near(found->time.nan_to_num(0).sum(2),
                   torch::ones({2, 3}, torch::kFloat64), testing::kFloat64));
  // Two frames are remembered, later ones hidden.
  const auto known = ~torch::isnan(found->time[0]);
  const auto band = torch::tensor({1, 0, 0, 1, 1, 0, 0, 1, 1}).view({3, 3});
  EXPECT_TRUE(torch::equal(known.to(torch::kInt64), band));
  // Nobody is shown anything any more, and answers are as before.
  EXPECT_TRUE(torch::equal(
      before, patches.subject.step(patches.subject.window.unsqueeze(0))));
}

// Without queries and keys all weigh the same.
TEST(ExplainSpaceTimeAttention, AttentionWithoutKeysIsUniform) {
  Patches patches;
  patches.set_to_zero("_qkv.weight");
  const auto found = space_time_attention(*patches.net, patches.subject, {});
  EXPECT_TRUE(near(found->space, torch::full({2, 4, 2}, 0.125, torch::kFloat64),
                   testing::kFloat64));
  EXPECT_NEAR(found->time[1][2][1].item<double>(), 0.5, 1e-12);
  const auto json = found->to_json();
  EXPECT_NEAR(json.at("patches_attended")[0], 8, 1e-9);
  EXPECT_NEAR(json.at("frames_attended")[1], 2, 1e-9);
}

TEST(ExplainSpaceTimeAttention, OtherModelsHaveNone) {
  Patches patches;
  const models::FrameShape shape{.periodic = {true, true}};
  models::FrameCnnOptions options;
  options.settle(shape, {8, 8});
  const auto cnn = options.make(shape);
  EXPECT_FALSE(space_time_attention(*cnn, patches.subject, {}));
  EXPECT_FALSE(has_attention(*cnn));
  EXPECT_TRUE(has_attention(*patches.net));
  EXPECT_THROW(space_time_attention(*patches.net, patches.subject, {8, 0}),
               UsageError);
}

TEST(ExplainSpaceTimeAttention, DrawsLayers) {
  Patches patches;
  const testing::TemporaryFolder folder;
  report::Report page(folder.path(), "page.html", "a", "b");
  draw(*space_time_attention(*patches.net, patches.subject, {}),
       patches.subject, page);
  EXPECT_TRUE(std::filesystem::exists(folder / "figures/attention-space.gp"));
  EXPECT_TRUE(std::filesystem::exists(folder / "figures/attention-time.gp"));
}

}  // namespace
}  // namespace propagator::explain
