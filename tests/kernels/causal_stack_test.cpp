#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/kernels/encoder/causal_stack.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

struct StackCase {
  StackTokens tokens, gradients;
  StackWeights weights;

  StackCase to(torch::ScalarType type) const {
    const auto move = [&](const StackTokens& t) {
      return StackTokens{t.first.to(type), t.rest.to(type)};
    };
    StackCase other{move(tokens), move(gradients), weights};
    for (auto& one : other.weights.layers) one = one.to(type);
    other.weights.norm = weights.norm.to(type);
    other.weights.norm_bias = weights.norm_bias.to(type);
    return other;
  }
};

StackCase case_of(int64_t shared, int64_t sequences, int64_t tokens,
                  int64_t width = 32, int64_t heads = 2, int64_t hidden = 48,
                  int64_t layers = 2) {
  const auto some = [&](const std::string& name) {
    return StackTokens{random({shared, width}, name + " first"),
                       random({sequences, tokens, width}, name + " rest")};
  };
  StackCase one{some("x"), some("dy"), {}};
  one.weights.heads = heads;
  int64_t number = 0;
  const auto weight = [&](torch::IntArrayRef shape, double middle = 0) {
    const double size = 1 / std::sqrt(static_cast<double>(shape.back()));
    return middle + size * random(shape, fmt::format("w{}", number++));
  };
  for (int64_t n = 0; n < layers; ++n) {
    for (const auto& tensor :
         {weight({width}, 1), weight({width}), weight({3 * width, width}),
          weight({width, width}), weight({width}, 1), weight({width}),
          weight({hidden, width}), weight({hidden}), weight({width, hidden}),
          weight({width})}) {
      one.weights.layers.push_back(tensor);
    }
  }
  one.weights.norm = weight({width}, 1);
  one.weights.norm_bias = weight({width});
  return one;
}

// The tokens, and the gradients by those that came in and by all weights.
Tensors results(StackTokens (*map)(const StackTokens&, const StackWeights&),
                const StackCase& one) {
  Tensors inputs;
  const auto leaf = [&](const Tensor& x) {
    inputs.push_back(x.detach().requires_grad_());
    return inputs.back();
  };
  const bool shared = one.tokens.first.size(0) > 0;
  const StackTokens tokens{shared ? leaf(one.tokens.first) : one.tokens.first,
                           leaf(one.tokens.rest)};
  auto weights = one.weights;
  for (auto& tensor : weights.layers) tensor = leaf(tensor);
  weights.norm = leaf(weights.norm);
  weights.norm_bias = leaf(weights.norm_bias);
  const auto out = map(tokens, weights);
  Tensors outputs{out.rest}, gradients{one.gradients.rest};
  if (shared) {
    outputs.push_back(out.first);
    gradients.push_back(one.gradients.first);
  }
  auto all = torch::autograd::grad(outputs, inputs, gradients);
  all.insert(all.end(), outputs.begin(), outputs.end());
  return all;
}

TEST(KernelsCausalStack, IsThatOfPlainOperationsWithItsGradients) {
  // Tiles that are full and not, one token and more, with and without a first.
  for (const auto& one :
       {case_of(1, 1, 1), case_of(1, 70, 1), case_of(1, 9, 5), case_of(0, 7, 3),
        case_of(1, 300, 2, 64, 4, 128, 1)}) {
    ASSERT_TRUE(has_causal_stack(one.tokens, one.weights));
    const auto plain = results(causal_stack_reference, one);
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      const double part = type == torch::kFloat64 ? 1e-11 : 2e-5;
      const auto found = results(causal_stack, one.to(type));
      for (size_t n = 0; n < plain.size(); ++n) {
        const double size = plain[n].abs().max().item<double>();
        EXPECT_TRUE(near(found[n].to(torch::kFloat64), plain[n],
                         {part, part * (1 + size)}))
            << n << " of " << one.tokens.rest.sizes();
      }
    }
  }
}

TEST(KernelsCausalStack, AFirstTokenIsOneThatEverySequenceBeginsWith) {
  const auto one = case_of(1, 6, 2);
  const auto& [first, rest] = one.tokens;
  const auto shared = causal_stack(one.tokens, one.weights);
  const auto written = causal_stack(
      {torch::zeros({0, 32}, torch::kFloat64),
       torch::cat({first.unsqueeze(0).expand({6, 1, 32}), rest}, 1)},
      one.weights);
  EXPECT_TRUE(near(shared.rest, written.rest.narrow(1, 1, 2), {1e-12, 1e-12}));
  EXPECT_TRUE(near(shared.first.expand({6, 32}), written.rest.select(1, 0),
                   {1e-12, 1e-12}));
}

TEST(KernelsCausalStack, RepeatsItsBitsWithAnyNumberOfThreads) {
  const auto one = case_of(1, 500, 1).to(torch::kFloat32);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto alone = results(causal_stack, one);
  at::set_num_threads(threads);
  const auto together = results(causal_stack, one);
  for (size_t n = 0; n < alone.size(); ++n) {
    EXPECT_TRUE(torch::equal(alone[n], together[n])) << n;
  }
}

TEST(KernelsCausalStack, WithoutGradientsIsTheSame) {
  const auto one = case_of(1, 70, 3).to(torch::kFloat32);
  const auto with = results(causal_stack, one);
  const auto out = causal_stack(one.tokens, one.weights);
  EXPECT_TRUE(torch::equal(out.first, with.back()));
  EXPECT_TRUE(torch::equal(out.rest, with[with.size() - 2]));
}

TEST(KernelsCausalStack, WidthsThatFillNoVectorsAreLeftToTheLibrary) {
  const auto one = case_of(1, 4, 2, 6, 2, 10);
  EXPECT_FALSE(has_causal_stack(one.tokens, one.weights));
  EXPECT_TRUE(
      torch::equal(causal_stack(one.tokens, one.weights).rest,
                   causal_stack_reference(one.tokens, one.weights).rest));
}

}  // namespace
}  // namespace propagator::kernels
