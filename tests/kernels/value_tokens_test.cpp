#include <ATen/Parallel.h>
#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/kernels/encoder/value_tokens.h"
#include "testing.h"

namespace propagator::kernels {
namespace {

using testing::near;
using testing::random;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

struct ValueCase {
  Tensor x, cotangent;
  ValueTokenWeights weights;
};

ValueCase value_case(int64_t rows, int64_t tokens, int64_t width,
                     torch::ScalarType type) {
  return {(3 * random({rows, tokens}, "x")).to(type),
          random({rows, tokens, width}, "dy").to(type),
          {(2 * random({width, 1}, "in")).to(type),
           random({width}, "bias").to(type),
           (random({width, width}, "out") / 4).to(type),
           random({tokens, width}, "offsets").to(type)}};
}

// The tokens and the gradients by x and the weights.
Tensors results(Tensor (*map)(const Tensor&, const ValueTokenWeights&),
                const ValueCase& one) {
  const auto leaf = [](const Tensor& x) { return x.detach().requires_grad_(); };
  const auto x = leaf(one.x);
  const ValueTokenWeights w{leaf(one.weights.in), leaf(one.weights.in_bias),
                            leaf(one.weights.out), leaf(one.weights.offsets)};
  const auto y = map(x, w);
  auto all = torch::autograd::grad({y}, {x, w.in, w.in_bias, w.out, w.offsets},
                                   {one.cotangent});
  all.push_back(y);
  return all;
}

TEST(KernelsValueTokens, IsThatOfPlainOperationsWithItsGradients) {
  for (const auto& [rows, tokens] :
       {std::pair{1, 1}, std::pair{500, 1}, std::pair{45, 3}}) {
    const auto plain = results(value_tokens_reference,
                               value_case(rows, tokens, 32, torch::kFloat64));
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      const auto one = value_case(rows, tokens, 32, type);
      ASSERT_TRUE(has_value_tokens(one.x, one.weights));
      const double part = type == torch::kFloat64 ? 1e-11 : 2e-5;
      const auto found = results(value_tokens, one);
      for (size_t n = 0; n < plain.size(); ++n) {
        const double size = plain[n].abs().max().item<double>();
        EXPECT_TRUE(near(found[n].to(torch::kFloat64), plain[n],
                         {part, part * (1 + size)}))
            << n << " of " << rows << " rows";
      }
    }
  }
}

TEST(KernelsValueTokens, GeluIsRightToTheLastPlacesOfAFloat) {
  const auto x = torch::linspace(-9, 9, 4001).unsqueeze(1);
  const ValueTokenWeights one{torch::ones({16, 1}), torch::zeros({16}),
                              torch::eye(16), torch::zeros({1, 16})};
  const auto found = value_tokens(x, one).select(2, 0).to(torch::kFloat64);
  EXPECT_TRUE(near(found, torch::gelu(x.to(torch::kFloat64)), {3e-7, 5e-7}));
}

TEST(KernelsValueTokens, RepeatsItsBitsWithAnyNumberOfThreads) {
  const auto one = value_case(500, 2, 16, torch::kFloat32);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto alone = results(value_tokens, one);
  at::set_num_threads(threads);
  const auto together = results(value_tokens, one);
  for (size_t n = 0; n < alone.size(); ++n) {
    EXPECT_TRUE(torch::equal(alone[n], together[n])) << n;
  }
}

TEST(KernelsValueTokens, WidthsThatFillNoVectorsAreLeftToTheLibrary) {
  const auto one = value_case(5, 2, 6, torch::kFloat32);
  EXPECT_FALSE(has_value_tokens(one.x, one.weights));
  EXPECT_TRUE(torch::equal(value_tokens(one.x, one.weights),
                           value_tokens_reference(one.x, one.weights)));
}

}  // namespace
}  // namespace propagator::kernels
