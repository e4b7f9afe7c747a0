#include "propagator/models/pinn_mamba.h"

#include <torch/utils.h>

#include <cmath>

#include "jet_checks.h"
#include "propagator/nn/init.h"

namespace propagator::models {
namespace {

using propagator::testing::near;
using propagator::testing::random;
using torch::Tensor;

constexpr int64_t kBatch = 3, kTokens = 3, kFields = 2;
const FieldDomain kMambaDomain{{0, 0}, {1, 1}, kFields, 1};

PinnMambaOptions small_mamba(int64_t convolution = 0) {
  PinnMambaOptions options;
  options.width = 4;
  options.inner = 5;
  options.state = 3;
  options.step_rank = 2;
  options.convolution = convolution;
  options.hidden = 6;
  return options;
}

std::shared_ptr<FieldNet> make(const PinnMambaOptions& options) {
  auto net = options.make(kMambaDomain);
  net->initialise(5);
  net->to(torch::kFloat64);
  return net;
}

Tensor mamba_points() { return random({kBatch, kTokens, 2}, "points"); }

testing::MovingPoints mamba_moving() {
  return {mamba_points(), random({2, 2}, "directions")};
}

TEST(ModelsPinnMamba, HasThePublishedNumberOfParameters) {
  const auto net = PinnMambaOptions().make({{0, 0}, {1, 1}, 1, 1});
  EXPECT_EQ(nn::parameter_count(*net), 285763);
  EXPECT_TRUE(PinnMambaOptions().windowed());
  PinnMambaOptions with_convolution;
  with_convolution.convolution = 4;
  EXPECT_EQ(nn::parameter_count(*with_convolution.make({{0, 0}, {1, 1}, 1, 1})),
            285763 + 32 * 4 + 32);
}

class ModelsPinnMambaConvolution : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Models, ModelsPinnMambaConvolution,
                         ::testing::Values(0, 2));

TEST_P(ModelsPinnMambaConvolution, DerivativesEqualNestedReverseMode) {
  auto net = make(small_mamba(GetParam()));
  EXPECT_TRUE(testing::derivatives_are_nested(
      testing::jet_map(*net), mamba_moving(), 3, {1e-9, 1e-10}));
}

TEST_P(ModelsPinnMambaConvolution, DerivativesAreThoseOfDifferences) {
  auto net = make(small_mamba(GetParam()));
  EXPECT_TRUE(testing::derivatives_are_differences(
      testing::jet_map(*net), mamba_moving(), 3, {1e-6, 1e-7}));
}

TEST_P(ModelsPinnMambaConvolution, ParameterGradientsOfASecondDerivative) {
  auto net = make(small_mamba(GetParam()));
  EXPECT_TRUE(testing::parameter_gradients_are_nested(
      *net, testing::jet_map(*net), mamba_moving(), 2, {1e-8, 1e-10}));
}

TEST_P(ModelsPinnMambaConvolution, LaterTokensChangeNothingBeforeThem) {
  auto net = make(small_mamba(GetParam()));
  const torch::NoGradGuard no_grad;
  auto moved = mamba_points();
  moved.select(1, 1).add_(0.5);
  const auto change =
      (net->values(moved) - net->values(mamba_points())).abs().amax({0, 2});
  EXPECT_EQ(change[0].item<double>(), 0);
  EXPECT_GT(change[1].item<double>(), 0);
  EXPECT_GT(change[2].item<double>(), 0);
}

TEST_P(ModelsPinnMambaConvolution, EqualsItsFormulaInPlainOperations) {
  auto net = make(small_mamba(GetParam()));
  const torch::NoGradGuard no_grad;
  auto p = net->named_parameters();
  for (auto& item : p) item.value().add_(random(item->sizes(), item.key()) / 4);
  const auto linear = [&](const std::string& name, const Tensor& x) {
    return torch::linear(x, p[name + ".weight"], p[name + ".bias"]);
  };
  const auto waves = [&](const std::string& name, const Tensor& x) {
    return p[name + ".w1"] * x.sin() + p[name + ".w2"] * x.cos();
  };
  const auto mixer = [&](const Tensor& tokens) {
    const auto both = linear("mixer.in", tokens).split(5, -1);
    auto x = both[0];
    if (const int64_t length = GetParam(); length > 0) {
      const auto before = torch::zeros({kBatch, length - 1, 5}, x.options());
      x = torch::conv1d(torch::cat({before, x}, 1).transpose(1, 2),
                        p["mixer.convolution.weight"],
                        p["mixer.convolution.bias"], {1}, torch::IntArrayRef{0},
                        {1}, /*groups=*/5)
              .transpose(1, 2);
    }
    x = torch::silu(x);
    const auto parts = linear("mixer.select", x).split_with_sizes({2, 3, 3}, 2);
    const auto delta =
        torch::log1p(linear("mixer.step", parts[0]).exp()).unsqueeze(-1);
    auto h = torch::zeros({kBatch, 5, 3}, x.options());
    std::vector<Tensor> y;
    for (int64_t t = 0; t < kTokens; ++t) {
      const auto step = delta.select(1, t), now = x.select(1, t);
      h = (step * -p["mixer.log_rates"].exp()).exp() * h +
          step * parts[1].select(1, t).unsqueeze(1) * now.unsqueeze(2);
      y.push_back((h * parts[2].select(1, t).unsqueeze(1)).sum(-1) +
                  p["mixer.skip"] * now);
    }
    return linear("mixer.out", torch::stack(y, 1) * torch::silu(both[1]));
  };
  auto x = linear("embed", mamba_points());
  x = x + mixer(waves("before_mixer", x));
  x = waves("after_mix", x + linear("mix", waves("before_mix", x)));
  x = waves("head.waves0", linear("head.linear0", x));
  x = waves("head.waves1", linear("head.linear1", x));
  EXPECT_TRUE(near(net->values(mamba_points()), linear("head.linear2", x),
                   {1e-11, 1e-12}));
}

TEST(ModelsPinnMamba, InitialisesAsTheDocumentDoes) {
  auto net = PinnMambaOptions().make(kMambaDomain);
  net->initialise(1);
  auto p = net->named_parameters();
  const auto is_all = [&](const char* name, float number) {
    return p[name].eq(number).all().item<bool>();
  };
  EXPECT_TRUE(is_all("embed.bias", 0.01f));
  EXPECT_TRUE(is_all("head.linear2.bias", 0.01f));
  EXPECT_TRUE(is_all("after_mix.w1", 1));
  EXPECT_TRUE(is_all("after_mix.w2", 1));
  EXPECT_TRUE(is_all("mixer.skip", 1));
  EXPECT_TRUE(near(p["mixer.log_rates"][7].exp(), torch::arange(1.0, 9.0),
                   propagator::testing::kFloat32));
  // Uniform on ±√(6 / (in + out)): filled to its ends, of variance bound²/3.
  const double bound = std::sqrt(6.0 / 1024);
  const auto weight = p["head.linear1.weight"];
  EXPECT_LE(weight.abs().max().item<double>(), bound * (1 + 1e-6));
  EXPECT_GT(weight.max().item<double>(), 0.99 * bound);
  EXPECT_LT(weight.min().item<double>(), -0.99 * bound);
  EXPECT_NEAR(weight.square().mean().item<double>(), bound * bound / 3,
              0.02 * bound * bound);
}

TEST(ModelsPinnMamba, EveryParameterHasItsOwnStream) {
  // Another size of the head leaves the weights before it as they were.
  auto options = small_mamba();
  auto a = make(options);
  options.hidden = 9;
  auto b = make(options);
  auto p = a->named_parameters(), q = b->named_parameters();
  EXPECT_TRUE(torch::equal(p["mixer.in.weight"], q["mixer.in.weight"]));
  EXPECT_FALSE(torch::equal(p["mixer.out.weight"].flatten(),
                            p["mixer.in.weight"].flatten().slice(0, 0, 20)));
  a->initialise(6);
  EXPECT_FALSE(torch::equal(p["mixer.in.weight"], q["mixer.in.weight"]));
}

}  // namespace
}  // namespace propagator::models
