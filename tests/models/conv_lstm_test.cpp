#include "propagator/models/conv_lstm.h"

#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "testing.h"

namespace propagator::models {
namespace {

using testing::near;
using testing::random;
using testing::thrown;

std::shared_ptr<ConvLstm> made_conv_lstm(const FrameShape& shape) {
  ConvLstmOptions options;
  options.width = 4;
  options.layers = 2;
  options.reach = 1;
  auto net = std::make_shared<ConvLstm>(options, shape);
  net->initialise(2);
  net->to(torch::kFloat64);
  return net;
}

TEST(ModelsConvLstm, ARolloutCarriesTheState) {
  const torch::NoGradGuard no_grad;
  const FrameShape shape{
      .periodic = {true, false}, .channels = 1, .given = 3, .conditions = 2};
  auto net = made_conv_lstm(shape);
  const auto frames = random({2, 9, 4, 5, 1}, "frames");
  const auto known = random({2, 4, 5, 2}, "known");
  const auto all = net->forward(frames, known);
  ASSERT_EQ(all.size(1), 7);
  const auto rollout = net->begin(known);
  for (int64_t n = 0; n < 7; ++n) {
    const auto answer = rollout->append(n == 0 ? frames.narrow(1, 0, 3)
                                               : frames.narrow(1, 2 + n, 1));
    EXPECT_TRUE(near(answer, all.select(1, n), testing::kFloat64)) << n;
  }
}

// Frames before those that a forecast begins with are not forgotten.
TEST(ModelsConvLstm, RemembersMoreThanIsGiven) {
  const torch::NoGradGuard no_grad;
  auto net = made_conv_lstm({.given = 1});
  auto frames = random({1, 6, 8, 1}, "frames");
  const auto before = net->forward(frames, {});
  frames.select(1, 0) += 1;
  const auto change = (net->forward(frames, {}) - before).abs();
  EXPECT_GT(change.select(1, 5).max().item<double>(), 1e-6);
}

TEST(ModelsConvLstm, BeginsWithGatesThatForgetLittle) {
  auto net = made_conv_lstm({});
  for (const auto* name : {"layer0.input.bias", "layer1.input.bias"}) {
    const auto bias = net->named_parameters()[name];
    const auto forget = bias.narrow(0, 4, 4);
    EXPECT_TRUE(torch::equal(forget, torch::ones_like(forget)));
    EXPECT_LT(bias.narrow(0, 0, 4).abs().max().item<double>(), 1);
  }
}

TEST(ModelsConvLstm, SaysWhatDoesNotFit) {
  ConvLstmOptions options;
  options.reach = 3;
  EXPECT_NE(thrown<ConfigError>([&] {
              options.settle({}, {6});
            }).find("an axis of 6 nodes has room for a reach of 2, got 3"),
            std::string::npos);
  auto net = made_conv_lstm({.given = 3});
  EXPECT_NE(thrown<std::invalid_argument>([&] {
              net->forward(torch::zeros({1, 2, 8, 1}, torch::kFloat64), {});
            }).find("expected 3 frames or more, got (1, 2, 8, 1)"),
            std::string::npos);
}

TEST(ModelsConvLstm, HasAsManyParametersAsItSays) {
  const FrameShape shape{
      .periodic = {true, false}, .channels = 2, .given = 3, .conditions = 1};
  const int64_t width = 4, inputs = 2 + 1 + 1, nodes = 9;
  EXPECT_EQ(nn::parameter_count(*made_conv_lstm(shape)),
            4 * width * (nodes * (inputs + width) + 1) +
                4 * width * (nodes * (width + width) + 1) + (width + 1) * 2);
}

}  // namespace
}  // namespace propagator::models
