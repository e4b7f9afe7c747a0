#include "propagator/explain/attention_maps.h"

#include <torch/utils.h>

#include "small_heat_former.h"
#include "testing.h"

namespace propagator::explain {
namespace {

using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;

constexpr int64_t kFrames = 12, kVisible = 3;

struct AttentionCase {
  explicit AttentionCase(models::MaskType mask) {
    model = propagator::testing::make_heat_former(
        propagator::testing::small_options(mask), {kFrames, 5, 5});
    subject.inputs = random({1, kFrames, 5, 5}, "frames");
    subject.forward = [this](const torch::Tensor& frames) {
      return model->forward(frames, torch::full({1}, 0.05, torch::kFloat64));
    };
  }
  std::shared_ptr<models::HeatFormer> model;
  tasks::AuditSubject subject;
};

TEST(ExplainAttention, EveryQuerySharesOneUnitAmongTheKeysItSees) {
  for (const auto mask :
       {models::MaskType::kBlock, models::MaskType::kCausal}) {
    AttentionCase here(mask);
    const auto maps = attention_maps(*here.model, here.subject);
    EXPECT_EQ(maps.weights.size(0), 2);  // layers
    EXPECT_EQ(maps.weights.size(1), 4);  // heads
    EXPECT_EQ(maps.weights.size(2), kFrames);
    EXPECT_TRUE(near(maps.weights.nan_to_num(0).sum(-1),
                     torch::ones({2, 4, kFrames}, torch::kFloat64), kFloat64));
  }
}

TEST(ExplainAttention, HiddenKeysAreThoseOfTheMask) {
  for (const auto mask :
       {models::MaskType::kBlock, models::MaskType::kCausal}) {
    AttentionCase here(mask);
    const auto maps = attention_maps(*here.model, here.subject);
    const int64_t keys = maps.weights.size(3);
    const auto seen = here.model->internals().mask.slice(1, 0, keys);
    EXPECT_TRUE(torch::equal(maps.weights[1][2].isnan(), seen.logical_not()));
    EXPECT_TRUE(maps.weights.isnan().any().item<bool>());
  }
}

TEST(ExplainAttention, LookingChangesNothingAndEnds) {
  AttentionCase here(models::MaskType::kBlock);
  const torch::NoGradGuard no_grad;
  const auto before = here.subject.forward(here.subject.inputs);
  attention_maps(*here.model, here.subject);
  EXPECT_TRUE(torch::equal(here.subject.forward(here.subject.inputs), before));
}

TEST(ExplainAttention, LongSequencesAreThinnedToWholeTokens) {
  AttentionCase here(models::MaskType::kCausal);
  const auto maps = attention_maps(*here.model, here.subject, 5);
  EXPECT_EQ(maps.queries, (std::vector<double>{0, 3, 6, 9}));
  EXPECT_EQ(maps.weights.size(2), 4);
  EXPECT_EQ(maps.weights.size(3), 4);
}

}  // namespace
}  // namespace propagator::explain
