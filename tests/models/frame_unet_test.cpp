#include "propagator/models/frame_unet.h"

#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "testing.h"

namespace propagator::models {
namespace {

using testing::near;
using testing::random;
using testing::thrown;
using torch::Tensor;

std::shared_ptr<FrameUnet> made_unet(int64_t width, int64_t levels,
                                     const FrameShape& shape) {
  FrameUnetOptions options;
  options.width = width;
  options.levels = levels;
  auto net = std::make_shared<FrameUnet>(options, shape);
  net->initialise(2);
  net->to(torch::kFloat64);
  return net;
}

TEST(ModelsFrameUnet, ChoosesLevelsThatTheGridHas) {
  const auto levels_on = [](const std::vector<int64_t>& nodes) {
    FrameUnetOptions options;
    options.settle({.periodic = std::vector<bool>(nodes.size(), true)}, nodes);
    return options.levels;
  };
  EXPECT_EQ(levels_on({64, 64}), 3);
  EXPECT_EQ(levels_on({1024}), 3);
  EXPECT_EQ(levels_on({24, 48}), 2);  // 6 nodes; 3 would be too few
  EXPECT_EQ(levels_on({64, 10}), 1);
  EXPECT_EQ(levels_on({}), 3);
}

TEST(ModelsFrameUnet, SaysWhatCannotBeHalved) {
  const auto error = [](int64_t levels, const std::vector<int64_t>& nodes) {
    FrameUnetOptions options;
    options.levels = levels;
    return thrown<ConfigError>([&] { options.settle({}, nodes); });
  };
  EXPECT_NE(error(0, {64, 27}).find("64 × 27 nodes cannot be halved to 4"),
            std::string::npos);
  EXPECT_NE(error(3, {64, 20})
                .find("64 × 20 nodes cannot be halved 3 times, since not all "
                      "are multiples of 8"),
            std::string::npos);
  auto net = made_unet(2, 2, {});
  EXPECT_NE(thrown<std::invalid_argument>([&] {
              net->forward(torch::zeros({1, 1, 10, 1}, torch::kFloat64), {});
            }).find("1 axes of a multiple of 4 nodes, got (1, 10, 1)"),
            std::string::npos);
}

// One axis, periodic, one level; with sums over rolled fields.
TEST(ModelsFrameUnet, IsWhatItsDefinitionSays) {
  const torch::NoGradGuard no_grad;
  auto net = made_unet(3, 1, {});
  const auto w = net->named_parameters();
  const auto conv = [&](const std::string& name, const Tensor& x) {
    auto y = w[name + ".bias"].expand({x.size(0), x.size(1), -1});
    for (int64_t k = -1; k <= 1; ++k) {
      y = y + torch::matmul(torch::roll(x, -k, 1),
                            w[name + ".weight"].select(2, k + 1).t());
    }
    return y;
  };
  const auto block = [&](const std::string& name, const Tensor& x) {
    return x + conv(name + "_second",
                    torch::gelu(conv(name + "_first", torch::gelu(x))));
  };
  const auto x = random({2, 1, 8, 1}, "x");
  const auto fine = block("encoder0", conv("down0", x.select(1, 0)));
  const auto coarse =
      block("encoder1", conv("down1", torch::gelu(fine)).slice(1, 0, 8, 2));
  const auto again = torch::repeat_interleave(coarse, 2, 1);
  const auto last = block(
      "decoder0", conv("up0", torch::gelu(torch::cat({fine, again}, -1))));
  const auto answer =
      torch::linear(torch::gelu(last), w["out.weight"], w["out.bias"]);
  EXPECT_TRUE(near(net->forward(x, {}).select(1, 0), answer, {1e-11, 1e-12}));
}

// Coarse grids carry what happens far away.
TEST(ModelsFrameUnet, SeesFarWithEachLevel) {
  const torch::NoGradGuard no_grad;
  const auto reach = [](int64_t levels) {
    auto net = made_unet(2, levels, {});
    auto x = random({1, 1, 128, 1}, "x");
    const auto before = net->forward(x, {});
    x[0][0][64] += 1;
    return ((net->forward(x, {}) - before) != 0).sum().item<int64_t>();
  };
  EXPECT_GT(reach(2), reach(1) + 8);
  EXPECT_GT(reach(3), reach(2) + 8);
}

TEST(ModelsFrameUnet, MovesWithAPeriodicFieldByCoarseNodes) {
  const torch::NoGradGuard no_grad;
  const FrameShape shape{.periodic = {true, false}, .channels = 2, .given = 2};
  auto net = made_unet(4, 2, shape);
  const auto x = random({1, 3, 12, 8, 2}, "x");
  const auto moves = [&](int64_t rows) {
    return near(net->forward(torch::roll(x, rows, 2), {}),
                torch::roll(net->forward(x, {}), rows, 2), {1e-10, 1e-11});
  };
  EXPECT_TRUE(moves(4));
  EXPECT_TRUE(moves(8));
  EXPECT_FALSE(moves(2));
}

TEST(ModelsFrameUnet, HasAsManyParametersAsItSays) {
  const FrameShape shape{
      .periodic = {true, false}, .channels = 2, .given = 3, .conditions = 1};
  const auto conv = [](int64_t in, int64_t out) { return (9 * in + 1) * out; };
  int64_t count = conv(3 * 2 + 1 + 1, 4) + (4 + 1) * 2;
  for (const int64_t width : {4, 8, 16}) count += 2 * conv(width, width);
  for (const int64_t width : {4, 8}) {
    count += conv(width, 2 * width) + conv(3 * width, width) +
             2 * conv(width, width);
  }
  EXPECT_EQ(nn::parameter_count(*made_unet(4, 2, shape)), count);
}

}  // namespace
}  // namespace propagator::models
