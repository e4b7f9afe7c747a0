#include "propagator/nn/masked_mlp.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <stdexcept>

#include "testing.h"

namespace propagator::nn {
namespace {

using testing::random;
using torch::Tensor;

MaskedMlp made(const MaskedMlpOptions& options) {
  MaskedMlp net(options);
  net->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  for (auto& item : net->named_parameters()) {
    item.value().copy_(random(item.value().sizes(), item.key()));
  }
  return net;
}

// |∂ output / ∂ input| summed over rows and the outputs of a variable, (D, D +
// C).
Tensor dependence(MaskedMlp& net, int64_t variables, int64_t given) {
  const auto x = random({5, variables}, "x").requires_grad_();
  const auto c = random({5, given}, "given").requires_grad_();
  const auto y = net->forward(x, c);
  std::vector<Tensor> rows;
  for (int64_t d = 0; d < variables; ++d) {
    const auto by = torch::autograd::grad({y.select(1, d).sum()}, {x, c}, {},
                                          true, false, true);
    std::vector<Tensor> parts;
    for (size_t n = 0; n < 2; ++n) {
      const int64_t columns = n == 0 ? variables : given;
      parts.push_back(by[n].defined()
                          ? by[n].abs().sum(0)
                          : torch::zeros({columns}, torch::kFloat64));
    }
    rows.push_back(torch::cat(parts));
  }
  return torch::stack(rows);
}

TEST(NnMaskedMlp, AVariableDependsOnThoseBeforeItAlone) {
  const std::vector<std::vector<int64_t>> orders{
      {}, {3, 2, 1, 0}, {2, 0, 3, 1}};
  for (const auto& order : orders) {
    for (const int64_t given : {0, 2}) {
      auto net = made({.variables = 4,
                       .given = given,
                       .outputs = 3,
                       .width = 12,
                       .layers = 3,
                       .order = order});
      const auto by = dependence(net, 4, given);
      for (size_t i = 0; i < 4; ++i) {
        for (size_t j = 0; j < 4; ++j) {
          const double size =
              by[net->order()[i]][net->order()[j]].item<double>();
          if (j < i) {
            EXPECT_GT(size, 0) << i << " of " << j;
          } else {
            EXPECT_EQ(size, 0) << i << " of " << j;
          }
        }
        for (int64_t c = 0; c < given; ++c) {
          EXPECT_GT(by[net->order()[i]][4 + c].item<double>(), 0) << i;
        }
      }
    }
  }
}

TEST(NnMaskedMlp, OneVariableDependsOnWhatIsGiven) {
  auto net = made({.variables = 1, .given = 1, .outputs = 2, .width = 5});
  const auto by = dependence(net, 1, 1);
  EXPECT_EQ(by[0][0].item<double>(), 0);
  EXPECT_GT(by[0][1].item<double>(), 0);
}

TEST(NnMaskedMlp, BeginsWithZeros) {
  MaskedMlp net(MaskedMlpOptions{.variables = 3, .outputs = 2});
  const auto y = net->forward(torch::randn({4, 3}), torch::zeros({4, 0}));
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{4, 3, 2}));
  EXPECT_EQ(y.abs().max().item<double>(), 0);
}

TEST(NnMaskedMlp, AnOrderHasEveryVariableOnce) {
  EXPECT_EQ(testing::thrown<std::invalid_argument>([] {
              MaskedMlp(MaskedMlpOptions{.variables = 3, .order = {0, 1, 1}});
            }),
            "[masked_mlp] expected an order of 3 variables, got [0, 1, 1]");
}

}  // namespace
}  // namespace propagator::nn
