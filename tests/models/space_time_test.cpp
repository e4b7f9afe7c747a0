#include "propagator/models/space_time.h"

#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "testing.h"

namespace propagator::models {
namespace {

using testing::near;
using testing::random;
using testing::thrown;

SpaceTimeOptions small_space_time(const FrameShape& shape) {
  SpaceTimeOptions options;
  options.width = 16;
  options.layers = 2;
  options.heads = 2;
  options.patch = 2;
  options.settle(shape, {});
  return options;
}

std::shared_ptr<SpaceTime> made_space_time(const SpaceTimeOptions& options,
                                           const FrameShape& shape) {
  auto net = std::make_shared<SpaceTime>(options, shape);
  net->initialise(2);
  net->to(torch::kFloat64);
  return net;
}

TEST(ModelsSpaceTime, ChoosesPatchesHeadsAndMemory) {
  const auto patch_on = [](const std::vector<int64_t>& nodes) {
    SpaceTimeOptions options;
    options.settle({.periodic = std::vector<bool>(nodes.size(), true)}, nodes);
    return options.patch;
  };
  EXPECT_EQ(patch_on({128}), 1);
  EXPECT_EQ(patch_on({1000}), 8);  // 125 patches
  EXPECT_EQ(patch_on({64, 64}), 8);
  EXPECT_EQ(patch_on({96, 48}), 6);
  EXPECT_EQ(patch_on({32, 32, 32}), 8);
  EXPECT_EQ(patch_on({31, 64}), 1);  // the only one there is
  SpaceTimeOptions options;
  options.settle({.periodic = {true, true, true}, .given = 7}, {});
  EXPECT_EQ(options.heads, 4);
  EXPECT_EQ(options.memory, 7);
  options = {};
  options.width = 40;
  options.settle({}, {});
  EXPECT_EQ(options.heads, 2);
}

TEST(ModelsSpaceTime, SaysWhatDoesNotFit) {
  const FrameShape plane{.periodic = {true, true}};
  const auto error = [&](auto change, const std::vector<int64_t>& nodes) {
    SpaceTimeOptions options;
    change(options);
    return thrown<ConfigError>([&] { options.settle(plane, nodes); });
  };
  EXPECT_NE(error([](auto& o) { o.patch = 3; }, {6, 64})
                .find("an axis of 64 nodes is no multiple of a patch of 3"),
            std::string::npos);
  EXPECT_NE(error([](auto&) {}, {101, 103}).find("axes of 101, 103 nodes"),
            std::string::npos);
  EXPECT_NE(error([](auto& o) { o.heads = 3; }, {}).find("got 3 heads"),
            std::string::npos);
  EXPECT_NE(error([](auto& o) { o.heads = 32; }, {}).find("got 32 heads"),
            std::string::npos);
  EXPECT_NE(error([](auto& o) { o.width = 15; }, {}).find("even number"),
            std::string::npos);
  auto net = made_space_time(small_space_time(plane), plane);
  EXPECT_NE(thrown<std::invalid_argument>([&] {
              net->forward(torch::zeros({1, 1, 4, 5, 1}, torch::kFloat64), {});
            }).find("2 axes of a multiple of 2 nodes"),
            std::string::npos);
}

// By whole patches, not by one node.
TEST(ModelsSpaceTime, MovesWithAPeriodicFieldByPatches) {
  const torch::NoGradGuard no_grad;
  const FrameShape shape{.periodic = {true, true}, .channels = 2, .given = 2};
  auto net = made_space_time(small_space_time(shape), shape);
  const auto x = random({1, 3, 12, 6, 2}, "x");
  const auto moves = [&](int64_t rows, int64_t columns) {
    const auto moved =
        net->forward(torch::roll(x, {rows, columns}, {2, 3}), {});
    return near(moved,
                torch::roll(net->forward(x, {}), {rows, columns}, {2, 3}),
                {1e-10, 1e-11});
  };
  EXPECT_TRUE(moves(2, 0));
  EXPECT_TRUE(moves(10, 4));
  EXPECT_FALSE(moves(1, 0));
}

// Two patches that change places: rotations tell them apart.
TEST(ModelsSpaceTime, KnowsWherePatchesAre) {
  const torch::NoGradGuard no_grad;
  const FrameShape shape{.periodic = {true, true}};
  auto net = made_space_time(small_space_time(shape), shape);
  const auto x = random({1, 1, 8, 8, 1}, "x");
  for (const int64_t axis : {2, 3}) {
    auto other = x.clone();
    other.narrow(axis, 2, 2).copy_(x.narrow(axis, 4, 2));
    other.narrow(axis, 4, 2).copy_(x.narrow(axis, 2, 2));
    EXPECT_FALSE(torch::allclose(net->forward(other, {}).narrow(axis, 0, 2),
                                 net->forward(x, {}).narrow(axis, 0, 2)));
  }
}

// A long one, with a memory that is shorter than what is given.
TEST(ModelsSpaceTime, ARolloutKeepsKeysAndValues) {
  const torch::NoGradGuard no_grad;
  const FrameShape shape{
      .periodic = {true, false}, .channels = 1, .given = 4, .conditions = 2};
  auto options = small_space_time(shape);
  for (const int64_t memory : {1, 3, 30}) {
    options.memory = memory;
    auto net = made_space_time(options, shape);
    const auto frames = random({2, 12, 4, 6, 1}, "frames");
    const auto known = random({2, 4, 6, 2}, "known");
    const auto all = net->forward(frames, known);
    ASSERT_EQ(all.size(1), 9);
    const auto rollout = net->begin(known);
    for (int64_t n = 0; n < 9; ++n) {
      const auto answer = rollout->append(n == 0 ? frames.narrow(1, 0, 4)
                                                 : frames.narrow(1, 3 + n, 1));
      EXPECT_TRUE(near(answer, all.select(1, n), testing::kFloat64)) << n;
    }
  }
}

TEST(ModelsSpaceTime, HasAsManyParametersAsItSays) {
  const FrameShape shape{
      .periodic = {true, false}, .channels = 3, .given = 4, .conditions = 2};
  const int64_t patch = 4, width = 16, layers = 2, inputs = 3 + 2 + 1;
  EXPECT_EQ(
      nn::parameter_count(*made_space_time(small_space_time(shape), shape)),
      (patch * inputs + 1) * width +
          layers * (16 * width * width + 11 * width) + 2 * width +
          (width + 1) * patch * 3);
}

// With a block mask: each later frame by itself, so that frame 3 of 6 is frame
// 3 of 3, and each another one, even from one given frame that is the same
// everywhere.
TEST(ModelsSpaceTime, LaterFramesAreAnsweredOneByOneAtOnce) {
  const torch::NoGradGuard no_grad;
  for (const int64_t given : {1, 3}) {
    const FrameShape shape{.periodic = {true, false},
                           .channels = 2,
                           .given = given,
                           .conditions = 1,
                           .block = 6};
    auto options = small_space_time(shape);
    options.mask_type = nn::MaskType::kBlock;
    auto net = made_space_time(options, shape);
    const auto frames = random({2, given, 4, 6, 2}, "frames");
    const auto known = random({2, 4, 6, 1}, "known");
    const auto all = net->later(frames, known, 6);
    ASSERT_EQ(all.sizes(), (std::vector<int64_t>{2, 6, 4, 6, 2}));
    EXPECT_TRUE(near(net->later(frames, known, 3), all.narrow(1, 0, 3),
                     testing::kFloat64));
    const auto flat = net->later(torch::ones_like(frames), known, 6);
    EXPECT_GT((flat.diff(1, 1)).abs().amax({0, 2, 3, 4}).min().item<double>(),
              1e-4);
    EXPECT_EQ(nn::parameter_count(*net),
              nn::parameter_count(*made_space_time(small_space_time(shape),
                                                   {.periodic = {true, false},
                                                    .channels = 2,
                                                    .given = given,
                                                    .conditions = 1})) +
                  16);
  }
}

TEST(ModelsSpaceTime, ABlockHasNoMemory) {
  SpaceTimeOptions options;
  options.mask_type = nn::MaskType::kBlock;
  options.settle({.periodic = {true}, .given = 3, .block = 4}, {8});
  EXPECT_EQ(options.memory, 0);
  ASSERT_EQ(options.unused_options().size(), 1u);
  EXPECT_EQ(options.unused_options()[0].key, "model.memory");
  EXPECT_TRUE(SpaceTimeOptions().unused_options().empty());
}

}  // namespace
}  // namespace propagator::models
