#include "propagator/nn/fused_layer.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "nn/freezing.h"
#include "propagator/autodiff/parameter_gradients.h"
#include "propagator/nn/encoder.h"
#include "propagator/nn/init.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using propagator::testing::devices;
using propagator::testing::Frozen;
using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::Tolerance;

constexpr int64_t kBatch = 2, kTokens = 23, kWidth = 64, kHeads = 4;

EncoderLayer make_layer() {
  EncoderLayer layer(EncoderOptions{1, kWidth, kHeads, 48});
  initialise(*layer, 5);
  // Norms that do something, so that a mixed-up gradient shows.
  const torch::NoGradGuard no_grad;
  for (auto& item : layer->named_parameters()) {
    if (item.key().starts_with("norm")) {
      item.value().add_(0.3 * random({kWidth}, item.key()).to(torch::kFloat32));
    }
  }
  layer->to(torch::kFloat64);
  return layer;
}

LayerWeights weights_of(EncoderLayer& layer) {
  auto p = layer->named_parameters();
  return {p["norm1.weight"],         p["norm1.bias"],
          p["attention.qkv.weight"], p["attention.output.weight"],
          p["norm2.weight"],         p["norm2.bias"],
          p["linear1.weight"],       p["linear1.bias"],
          p["linear2.weight"],       p["linear2.bias"]};
}

class NnFusedLayer : public ::testing::TestWithParam<AttentionBias> {};

TEST_P(NnFusedLayer, EqualsPlainLayerInValueAndGradients) {
  const auto mask = GetParam();
  auto layer = make_layer();
  const auto input = random({kBatch, kTokens, kWidth}, "x");
  const auto cotangent = random({kBatch, kTokens, kWidth}, "cotangent");
  auto x = input.clone().set_requires_grad(true);
  const auto plain = layer->forward(x, mask, AttentionWork::kFullMask);
  std::vector<torch::Tensor> inputs{x};
  for (const auto& p : layer->parameters()) inputs.push_back(p);
  const auto expected = torch::autograd::grad({plain}, inputs, {cotangent});
  for (const auto& device : devices()) {
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      auto copy = make_layer();
      copy->to(device, type);
      // Gradients are added to what is there.
      for (auto& p : copy->parameters()) p.mutable_grad() = torch::ones_like(p);
      auto y = input.to(device, type).clone().set_requires_grad(true);
      const auto out = fused_layer(y, weights_of(copy), kHeads, mask, 1e-5);
      out.backward(cotangent.to(device, type));
      const Tolerance tolerance = type == torch::kFloat64
                                      ? Tolerance{1e-9, 1e-10}
                                      : Tolerance{1e-4, 1e-4};
      const auto agrees = [&](const torch::Tensor& got,
                              const torch::Tensor& wanted) {
        return near(got.to(torch::kCPU, torch::kFloat64), wanted, tolerance);
      };
      EXPECT_TRUE(agrees(out.detach(), plain.detach())) << device << type;
      EXPECT_TRUE(agrees(y.grad(), expected[0])) << device << type;
      const auto parameters = copy->named_parameters();
      for (size_t n = 0; n < parameters.size(); ++n) {
        EXPECT_TRUE(agrees(parameters[n].value().grad(), expected[n + 1] + 1))
            << device << type << " " << parameters[n].key();
      }
    }
  }
}

TEST_P(NnFusedLayer, FrozenWeightsGetNoGradientAndChangeNoOther) {
  const auto mask = GetParam();
  const auto input = random({kBatch, kTokens, kWidth}, "x");
  const auto cotangent = random({kBatch, kTokens, kWidth}, "cotangent");
  for (const auto& device : devices()) {
    for (int n = 0; n < Frozen::kChoices; ++n) {
      auto plain = make_layer(), fused = make_layer();
      const auto there = [&](const torch::Tensor& x) {
        return x.to(device).clone().set_requires_grad(true);
      };
      auto x = there(input), y = there(input);
      for (auto* layer : {&plain, &fused}) {
        (*layer)->to(device);
        Frozen::choice(n).apply_to(**layer);
      }
      plain->forward(x, mask, AttentionWork::kFullMask)
          .backward(cotangent.to(device));
      fused_layer(y, weights_of(fused), kHeads, mask, 1e-5)
          .backward(cotangent.to(device));
      EXPECT_TRUE(near(y.grad(), x.grad(), {1e-9, 1e-10})) << n << device;
      const auto expected = plain->named_parameters();
      for (const auto& item : fused->named_parameters()) {
        const auto& gradient = item.value().grad();
        const auto& wanted = expected[item.key()].grad();
        ASSERT_EQ(gradient.defined(), wanted.defined()) << n << item.key();
        EXPECT_EQ(gradient.defined(), item.value().requires_grad());
        if (!wanted.defined()) continue;
        EXPECT_TRUE(near(gradient, wanted, {1e-9, 1e-10}))
            << n << item.key() << device;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(NnMasks, NnFusedLayer,
                         ::testing::Values(AttentionBias::visible_prefix(5),
                                           AttentionBias::visible_prefix(1),
                                           AttentionBias::causal(6, true),
                                           AttentionBias::causal(3, false)));

TEST(NnFusedParts, NormAndLinearEqualTheirModules) {
  const auto input = random({2, 5, 24}, "x");
  const auto weight = random({12, 24}, "weight"), bias = random({12}, "bias");
  const auto gain = random({24}, "gain"), shift = random({24}, "shift");
  const auto cotangent = random({2, 5, 12}, "cotangent");
  for (const auto& device : devices()) {
    const auto there = [&](const torch::Tensor& x) {
      return x.to(device).clone().set_requires_grad(true);
    };
    const std::vector<torch::Tensor> a{there(input), there(weight), there(bias),
                                       there(gain), there(shift)};
    const auto plain = torch::linear(
        torch::layer_norm(a[0], {24}, a[3], a[4], 1e-5), a[1], a[2]);
    const auto expected =
        torch::autograd::grad({plain}, a, {cotangent.to(device)});
    const auto fused =
        fused_linear(fused_norm(a[0], a[3], a[4], 1e-5), a[1], a[2]);
    fused.backward(cotangent.to(device));
    EXPECT_TRUE(near(fused, plain, {1e-10, 1e-12})) << device;
    for (size_t n = 0; n < a.size(); ++n) {
      EXPECT_TRUE(near(a[n].grad(), expected[n], {1e-9, 1e-10})) << n << device;
    }
  }
}

TEST(NnFusedParts, FrozenOnesGetNoGradient) {
  for (const auto& device : devices()) {
    const auto make = [&](torch::IntArrayRef shape, const char* name,
                          bool trained) {
      return random(shape, name).to(device).set_requires_grad(trained);
    };
    auto x = make({5, 24}, "x", true);
    auto weight = make({12, 24}, "weight", false);
    auto bias = make({12}, "bias", true);
    auto gain = make({24}, "gain", true), shift = make({24}, "shift", false);
    fused_linear(fused_norm(x, gain, shift, 1e-5), weight, bias)
        .sum()
        .backward();
    EXPECT_FALSE(weight.grad().defined() || shift.grad().defined());
    EXPECT_TRUE(near(bias.grad(), torch::full_like(bias, 5), {1e-12, 0}));
    EXPECT_TRUE(gain.grad().defined() && x.grad().defined());
  }
}

// It adds to `.grad` by itself, which whoever asks autograd must not miss.
TEST(NnFusedLinear, ParameterGradientsHaveWhatItAddsItself) {
  const auto x = random({5, 3}, "x");
  const auto weight = random({4, 3}, "weight").set_requires_grad(true);
  const auto bias = random({4}, "bias").set_requires_grad(true);
  const auto kept = torch::ones_like(weight);
  weight.mutable_grad() = kept;
  const auto plain = torch::autograd::grad(
      {torch::linear(x, weight, bias).square().sum()}, {weight, bias});
  const auto other = random({2}, "other").set_requires_grad(true);
  const auto found = autodiff::parameter_gradients(
      fused_linear(x, weight, bias).square().sum(), {weight, bias, other});
  EXPECT_TRUE(near(found[0], plain[0], propagator::testing::kFloat64));
  EXPECT_TRUE(near(found[1], plain[1], propagator::testing::kFloat64));
  EXPECT_EQ(found[2].abs().sum().item<double>(), 0);
  EXPECT_TRUE(weight.grad().is_same(kept));
  EXPECT_TRUE(torch::equal(kept, torch::ones_like(kept)));
  EXPECT_FALSE(bias.grad().defined());
}

}  // namespace
}  // namespace propagator::nn
