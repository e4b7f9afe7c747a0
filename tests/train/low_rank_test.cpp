#include "propagator/train/low_rank.h"

#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/train/flat_parameters.h"
#include "propagator/train/tuning.h"
#include "testing.h"

namespace propagator::train {
namespace {

using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::thrown;
using torch::Tensor;

// Two linear maps with a tanh between, in float64.
struct TwoMaps : torch::nn::Module {
  TwoMaps() {
    register_module("first", first);
    register_module("second", second);
    to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    for (auto& item : named_parameters()) {
      item.value().copy_(random(item.value().sizes(), item.key()));
    }
  }
  Tensor forward(const Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first{3, 5}, second{5, 2};
};

TEST(TrainLowRank, BeginsAtTheBaseAndAddsTheScaledProduct) {
  TwoMaps net;
  const auto base = net.first->weight.detach().clone();
  LowRank change;
  change.add("first.weight", net.first->weight, {.rank = 2, .alpha = 6});
  change.refresh();
  EXPECT_TRUE(torch::equal(net.first->weight, base));
  const auto factors = change.factors();
  const auto a = factors.at("first.weight.lora_a");
  const auto b = factors.at("first.weight.lora_b");
  EXPECT_EQ(a.sizes(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(b.sizes(), (std::vector<int64_t>{5, 2}));
  b.copy_(random({5, 2}, "b"));
  change.refresh();
  const auto expected = base + 3 * torch::matmul(b, a);
  EXPECT_TRUE(near(net.first->weight.detach(), expected, kFloat64));
  EXPECT_TRUE(near(with_low_rank(base, a, b, 3), expected, kFloat64));
}

// A convolution's kernel, say, as the matrix (first, all others).
TEST(TrainLowRank, MoreDimensionsCountAsAMatrix) {
  auto kernel = random({4, 3, 2}, "kernel").requires_grad_();
  ASSERT_TRUE(LowRank::fits(kernel));
  EXPECT_FALSE(LowRank::fits(random({4, 1}, "column")));
  EXPECT_FALSE(LowRank::fits(random({1, 4}, "row")));
  EXPECT_FALSE(LowRank::fits(random({4}, "vector")));
  LowRank change;
  change.add("kernel", kernel, {.rank = 99, .alpha = 99});
  const auto factors = change.factors();
  EXPECT_EQ(factors.at("kernel.lora_a").sizes(),
            (std::vector<int64_t>{4, 6}));  // no more than it can have
  factors.at("kernel.lora_b").copy_(random({4, 4}, "b"));
  const auto base = kernel.detach().clone();
  change.refresh();
  EXPECT_TRUE(near(
      (kernel.detach() - base).view({4, 6}),
      torch::matmul(factors.at("kernel.lora_b"), factors.at("kernel.lora_a")),
      kFloat64));
}

// Against autograd through W₀ + (α/r) B A itself.
TEST(TrainLowRank, GradientsOfTheFactorsAreThoseOfAutograd) {
  TwoMaps net;
  TuneOptions options;
  options.from = "somewhere";
  options.method = TuneMethod::kLora;
  options.rank = 2;
  options.alpha = 5;
  options.train = {"second.bias"};
  Tuning tuning(options, net, 7);
  FlatParameters flat(net, tuning.low_rank().factors(),
                      FlatParameters::Order::kAsNamed, &tuning.low_rank());
  EXPECT_EQ(tuning.parameters(), 2 * (3 + 5) + 2 * (5 + 2) + 2);
  flat.values().copy_(random({flat.values().numel()}, "values"));
  flat.refresh();
  const auto x = random({6, 3}, "x");
  flat.add_gradient_of(net.forward(x).square().sum(), 0.5);

  auto leaves = tuning.adapter();
  for (auto& [name, value] : leaves) value.requires_grad_();
  const auto weight = [&](const std::string& name) {
    return tuning.low_rank().bases().at(name) +
           2.5 * torch::matmul(leaves.at(name + kLoraB),
                               leaves.at(name + kLoraA));
  };
  const auto hidden = torch::tanh(
      torch::linear(x, weight("first.weight"), net.first->bias.detach()));
  const auto out =
      torch::linear(hidden, weight("second.weight"), leaves.at("second.bias"));
  (0.5 * out.square().sum()).backward();
  ASSERT_EQ(flat.segments().size(), 5u);
  for (const auto& [name, offset, size] : flat.segments()) {
    EXPECT_TRUE(near(flat.gradients().narrow(0, offset, size),
                     leaves.at(name).grad().flatten(), kFloat64))
        << name;
  }
}

TEST(TrainTuning, FrozenParametersTakeNoPlaceInTheBuffer) {
  TwoMaps net;
  TuneOptions options;
  options.from = "somewhere";
  options.freeze = {"first.*"};
  Tuning tuning(options, net, 0);
  EXPECT_FALSE(net.first->weight.requires_grad());
  FlatParameters flat(net);
  ASSERT_EQ(flat.segments().size(), 2u);
  EXPECT_EQ(flat.segments()[0].name, "second.weight");
  EXPECT_EQ(tuning.parameters(), 12);
  flat.add_gradient_of(net.forward(random({6, 3}, "x")).sum(), 1);
  EXPECT_FALSE(net.first->weight.grad().defined());
  EXPECT_EQ(tuning.adapter().size(), 2u);
  tuning.release();
  EXPECT_TRUE(net.first->weight.requires_grad());
}

TEST(TrainTuning, PatternsThatMatchNothingAndNothingLeftAreErrors) {
  const auto message = [](auto&& change) {
    TwoMaps net;
    TuneOptions options;
    options.from = "somewhere";
    change(options);
    return thrown<ConfigError>([&] { Tuning(options, net, 0); });
  };
  EXPECT_NE(message([](auto& o) {
              o.freeze = {"encoder.*"};
            }).find("'encoder.*' matches no parameter"),
            std::string::npos);
  EXPECT_NE(message([](auto& o) {
              o.method = TuneMethod::kLora;
              o.targets = {"*.bias"};
            }).find("'*.bias' matches no matrix"),
            std::string::npos);
  EXPECT_NE(message([](auto& o) { o.freeze = {"*"}; }).find("nothing to train"),
            std::string::npos);
}

TEST(TrainTuning, AnAdapterThatDoesNotFitIsNoChange) {
  data::Safetensors adapter{
      {{"w.lora_a", torch::zeros({2, 3})}, {"w.lora_b", torch::zeros({5, 2})}},
      {{"method", "lora"},
       {"rank", "2"},
       {"alpha", "4"},
       {"width", "1"},
       {"tokens", "1"}}};
  const NamedTensors good{{"w", torch::ones({5, 3})}};
  EXPECT_TRUE(torch::equal(with_adapter(good, adapter).at("w"), good.at("w")));
  for (const auto& shape :
       {std::vector<int64_t>{5, 4}, std::vector<int64_t>{4, 3}}) {
    EXPECT_NE(thrown<DataError>([&] {
                with_adapter({{"w", torch::ones(shape)}}, adapter);
              }).find("fits no weight"),
              std::string::npos);
  }
  adapter.metadata["rank"] = "many";
  thrown<DataError>([&] { with_adapter(good, adapter); });
  adapter.metadata.erase("rank");
  thrown<DataError>([&] { with_adapter(good, adapter); });
}

// Nothing is made that an adapter's tensors are not: its metadata may ask for
// any size.
TEST(TrainTuning, AnAdapterIsAsLargeAsItsTensors) {
  data::Safetensors adapter;
  adapter.metadata = {{"method", "adapters"},
                      {"rank", "8"},
                      {"alpha", "16"},
                      {"width", "4"},
                      {"tokens", "8"}};
  EXPECT_THROW(method_of(adapter), DataError) << "without any";
  adapter.tensors["layer0.adapter.down.weight"] = torch::zeros({4, 6});
  EXPECT_EQ(method_of(adapter).width, 4);
  adapter.metadata["width"] = "60000";
  EXPECT_THROW(method_of(adapter), DataError);
  adapter.metadata["method"] = "prefix";
  adapter.tensors = {{"layer0.attention.prefix.keys", torch::zeros({8, 6})}};
  EXPECT_EQ(method_of(adapter).tokens, 8);
  adapter.metadata["tokens"] = "4000";
  EXPECT_THROW(method_of(adapter), DataError);
}

}  // namespace
}  // namespace propagator::train
