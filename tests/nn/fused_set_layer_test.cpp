#include "propagator/nn/fused_set_layer.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <cmath>

#include "nn/freezing.h"
#include "propagator/nn/init.h"
#include "propagator/nn/set_encoder.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using testing::Frozen;
using testing::gradient_is_right;
using testing::near;
using testing::random;
using testing::Tolerance;
using torch::Tensor;

// Sums in another order, through a few layers and back.
constexpr Tolerance kSums64{1e-11, 1e-12}, kSums32{1e-4, 2e-5};

// The lecture's layer, and hidden widths below and above the width.
const SetEncoderOptions kSizes[] = {
    {.layers = 2, .width = 32, .heads = 4, .feed_forward = 64},
    {.layers = 2, .width = 32, .heads = 2, .feed_forward = 16},
    {.layers = 1, .width = 16, .heads = 1, .feed_forward = 48}};

// Norms and biases that do something.
template <class Module>
Module make(SetEncoderOptions options, double dropout,
            torch::ScalarType type = torch::kFloat64) {
  options.dropout = dropout;
  Module module(options);
  initialise(*module, 3);
  seed_dropouts(*module, 3);
  const torch::NoGradGuard no_grad;
  for (auto& item : module->named_parameters()) {
    if (item.value().dim() == 1 && item.value().requires_grad()) {
      item.value().add_(random(item.value().sizes(), item.key()) / 2);
    }
  }
  module->to(type);
  return module;
}

// Nine tokens in each of four sets: none, some, the first ones and all but one
// of them padding.
Tensor padding() {
  auto all = torch::zeros({4, 9}, torch::kBool);
  for (const int64_t t : {2, 3, 8}) all[1][t] = true;
  all[2].slice(0, 1, 5).fill_(true);
  all[3].slice(0, 1).fill_(true);
  return all;
}

Tensor tokens(int64_t width) { return 2 * random({4, 9, width}, "tokens"); }

// Where the plain path is taken: an observer wants the weights.
void look(int64_t, const Tensor&) {}

// The gradients of the sum with a cotangent: of x, then of all parameters.
std::vector<Tensor> gradients(torch::nn::Module& module, const Tensor& out,
                              const Tensor& x) {
  (out * random(out.sizes(), "cotangent").to(out.scalar_type()))
      .sum()
      .backward();
  std::vector<Tensor> all{x.grad().clone()};
  for (auto& p : module.parameters()) {
    if (!p.requires_grad()) continue;
    all.push_back(p.grad().clone());
    p.mutable_grad().zero_();
  }
  return all;
}

void expect_near(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                 Tolerance tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t n = 0; n < a.size(); ++n) {
    EXPECT_TRUE(near(a[n], b[n], tolerance)) << "gradient " << n;
  }
}

TEST(NnFusedSetLayer, ValueAndGradientsAreThoseOfThePlainLayer) {
  for (const auto& size : kSizes) {
    for (const double dropout : {0.0, 0.3}) {
      for (const bool first : {false, true}) {
        for (const auto type : {torch::kFloat64, torch::kFloat32}) {
          const auto tolerance = type == torch::kFloat64 ? kSums64 : kSums32;
          auto plain = make<SetEncoderLayer>(size, dropout, type);
          auto fused = make<SetEncoderLayer>(size, dropout, type);
          auto x = tokens(size.width).to(type).set_requires_grad(true);
          auto y = x.detach().clone().set_requires_grad(true);
          const auto sets = kernels::pack_sets(padding());
          for (int draw = 0; draw < 2; ++draw) {
            const auto expected =
                plain->forward({x, padding()}, first ? 1 : 9).flatten(0, 1);
            const auto got = fused->forward_packed(
                y.flatten(0, 1).index_select(0, sets.place), sets, first);
            const auto wanted =
                first ? expected : expected.index_select(0, sets.place);
            EXPECT_TRUE(near(got, wanted, tolerance));
            expect_near(gradients(*fused, got, y), gradients(*plain, wanted, x),
                        tolerance);
            x.mutable_grad().zero_();
            y.mutable_grad().zero_();
          }
        }
      }
    }
  }
}

TEST(NnFusedSetLayer, FrozenWeightsGetNoGradientAndChangeNoOther) {
  const auto sets = kernels::pack_sets(padding());
  for (int n = 0; n < Frozen::kChoices; ++n) {
    for (const bool first : {false, true}) {
      for (const bool of_input : {true, false}) {
        auto plain = make<SetEncoderLayer>(kSizes[0], 0.3);
        auto fused = make<SetEncoderLayer>(kSizes[0], 0.3);
        Frozen::choice(n).apply_to(*plain);
        Frozen::choice(n).apply_to(*fused);
        const auto x = tokens(32).set_requires_grad(of_input);
        const auto y = tokens(32).set_requires_grad(of_input);
        const auto all =
            plain->forward({x, padding()}, first ? 1 : 9).flatten(0, 1);
        const auto wanted = first ? all : all.index_select(0, sets.place);
        const auto got = fused->forward_packed(
            y.flatten(0, 1).index_select(0, sets.place), sets, first);
        ASSERT_EQ(got.requires_grad(), wanted.requires_grad());
        if (!got.requires_grad()) continue;
        const auto cotangent = random(got.sizes(), "cotangent");
        wanted.backward(cotangent);
        got.backward(cotangent);
        if (of_input) {
          EXPECT_TRUE(near(y.grad(), x.grad(), kSums64)) << n;
        }
        const auto expected = plain->named_parameters();
        for (const auto& item : fused->named_parameters()) {
          const auto& gradient = item.value().grad();
          const auto& of_plain = expected[item.key()].grad();
          ASSERT_EQ(gradient.defined(), of_plain.defined()) << n << item.key();
          if (!gradient.defined()) continue;
          EXPECT_TRUE(near(gradient, of_plain, kSums64)) << n << item.key();
        }
      }
    }
  }
}

TEST(NnFusedSetLayer, GradientIsThatOfDifferences) {
  auto encoder = make<SetEncoder>(kSizes[0], 0);
  const auto x = tokens(32);
  ASSERT_TRUE(encoder->packing_pays({x, padding()}, 1));
  // Differences are taken without gradients, on the plain path.
  const auto value = [&](const Tensor& t) {
    const auto out = encoder->forward({t, padding()}, 1);
    return (out * random(out.sizes(), "cotangent")).sum();
  };
  EXPECT_TRUE(gradient_is_right(value, x));
  encoder->zero_grad();
  value(x).backward();
  const torch::NoGradGuard no_grad;
  for (auto& item : encoder->named_parameters()) {
    auto& p = item.value();
    if (!p.requires_grad()) continue;
    const auto direction = random(p.sizes(), "direction");
    const double slope = (p.grad() * direction).sum().item<double>();
    constexpr double kStep = 1e-6;
    p.add_(direction, kStep);
    const double above = value(x).item<double>();
    p.sub_(direction, 2 * kStep);
    const double below = value(x).item<double>();
    p.add_(direction, kStep);
    EXPECT_NEAR((above - below) / (2 * kStep), slope,
                1e-7 + 1e-6 * std::abs(slope))
        << item.key();
  }
}

TEST(NnFusedSetLayer, EncoderIsTheSameOnBothPaths) {
  for (const auto& size : kSizes) {
    const auto x = tokens(size.width);
    // One token among padding, and all of them where there is none.
    for (const bool first : {true, false}) {
      auto fused = make<SetEncoder>(size, 0.1);
      auto plain = make<SetEncoder>(size, 0.1);
      const TokenSet set{x, first ? padding() : Tensor()};
      const int64_t wanted = first ? 1 : -1;
      ASSERT_TRUE(fused->packing_pays(set, wanted));
      for (int draw = 0; draw < 2; ++draw) {
        EXPECT_TRUE(near(fused->forward(set, wanted),
                         plain->forward(set, wanted, look), kSums64));
      }
    }
  }
}

TEST(NnFusedSetLayer, TrainingIsTheSameOnBothPaths) {
  const auto train = [](const SetEncoderImpl::Observer& observer) {
    auto encoder = make<SetEncoder>(kSizes[0], 0.1);
    const auto target = random({4, 1, 32}, "target");
    std::vector<double> losses;
    for (int step = 0; step < 30; ++step) {
      encoder->zero_grad();
      const auto out = encoder->forward({tokens(32), padding()}, 1, observer);
      const auto loss = (out - target).square().mean();
      loss.backward();
      losses.push_back(loss.item<double>());
      const torch::NoGradGuard no_grad;
      for (auto& p : encoder->parameters()) {
        if (p.requires_grad()) p.sub_(0.05 * p.grad());
      }
    }
    return losses;
  };
  const auto fused = train({}), plain = train(look);
  EXPECT_LT(fused.back(), 0.5 * fused.front());
  for (size_t n = 0; n < fused.size(); ++n) {
    EXPECT_NEAR(fused[n], plain[n], 1e-9 * plain[n]) << "step " << n;
  }
}

TEST(NnFusedSetLayer, IsForSmallStepsOfTraining) {
  auto encoder = make<SetEncoder>(kSizes[0], 0.1);
  const TokenSet set{tokens(32), padding()};
  EXPECT_TRUE(encoder->packing_pays(set, 1));
  EXPECT_FALSE(encoder->packing_pays(set, -1));  // padding is asked for
  EXPECT_FALSE(encoder->packing_pays({torch::zeros({1000, 9, 32})}, 1));
  EXPECT_FALSE(  // the network is float64
      encoder->packing_pays({set.tokens.to(torch::kFloat32), set.padding}, 1));
  {
    const torch::NoGradGuard no_grad;
    EXPECT_FALSE(encoder->packing_pays(set, 1));
  }
  auto odd = kSizes[0];
  odd.feed_forward = 10;
  EXPECT_FALSE(make<SetEncoder>(odd, 0.1)->packing_pays(set, 1));
  odd = kSizes[0];
  odd.norm = NormPlace::kBefore;
  EXPECT_FALSE(make<SetEncoder>(odd, 0.1)->packing_pays(set, 1));
  encoder->named_parameters()["layer0.norm1.bias"].set_requires_grad(false);
  EXPECT_TRUE(encoder->packing_pays(set, 1));
}

}  // namespace
}  // namespace propagator::nn
