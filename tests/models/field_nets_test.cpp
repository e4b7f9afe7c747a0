#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/models/field_net.h"
#include "propagator/models/spformer.h"
#include "propagator/nn/init.h"
#include "testing.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using testing::near;
using torch::Tensor;

constexpr testing::Tolerance kByDifferences{2e-5, 2e-5};

const FieldDomain kPlane{.low = {0, 0}, .high = {1, 1}, .fields = 1, .time = 1};

std::shared_ptr<FieldNet> make(const std::string& name) {
  auto net = field_nets().at(name).options()->make(kPlane);
  net->initialise(3);
  return net;
}

int64_t all_parameters(const FieldNet& net) {
  int64_t count = 0;
  for (const auto& p : net.parameters()) count += p.numel();
  return count;
}

// The S-Pformer paper, table of sizes.
TEST(ModelsFieldNets, PublishedParameterCounts) {
  EXPECT_EQ(nn::parameter_count(*make("pinn")), 527361);
  EXPECT_EQ(nn::parameter_count(*make("pinnsformer")), 453561);
  EXPECT_EQ(nn::parameter_count(*make("spformer")), 370991);
  EXPECT_EQ(nn::parameter_count(*make("spformer-rope")), 366959);
  EXPECT_EQ(nn::parameter_count(*make("pinn-mamba")), 285763);
  EXPECT_EQ(all_parameters(*make("kan")), 891);
}

TEST(ModelsFieldNets, OurOwnParameterCounts) {
  EXPECT_EQ(nn::parameter_count(*make("spformer-small")), 23151);
  EXPECT_EQ(nn::parameter_count(*make("siren")), 8577);
  EXPECT_EQ(nn::parameter_count(*make("wire")), 16961);
}

// Points at opposite corners span the domain, so that both scales agree; of a
// part of them the batch has a smaller one.
TEST(ModelsFieldNets, AlibiOfABatchIsRelativeToItsPoints) {
  const auto net = [](AlibiScale scale) {
    SpFormerOptions options;
    options.position = nn::RelativePosition::kAlibi;
    options.alibi_scale = scale;
    auto made = options.make(kPlane);
    made->initialise(3);
    made->to(torch::kFloat64);
    return made;
  };
  const auto windows = torch::tensor({{{0.0, 0.0}, {0.25, 0.25}},
                                      {{0.25, 0.5}, {0.5, 0.75}},
                                      {{0.5, 0.75}, {1.0, 1.0}}},
                                     torch::kFloat64);
  const auto answers = [&](AlibiScale scale, const Tensor& points) {
    const torch::NoGradGuard no_grad;
    return net(scale)->values(points);
  };
  const auto domain = answers(AlibiScale::kDomain, windows);
  EXPECT_TRUE(torch::equal(answers(AlibiScale::kBatch, windows), domain));
  const auto part = windows.narrow(0, 0, 2);
  EXPECT_TRUE(near(answers(AlibiScale::kDomain, part), domain.narrow(0, 0, 2),
                   testing::kFloat64));
  EXPECT_GT((answers(AlibiScale::kBatch, part) - domain.narrow(0, 0, 2))
                .abs()
                .max()
                .item<double>(),
            1e-6);
  // One point has no span, and no distances.
  const auto one = torch::tensor({{{0.5, 0.5}}}, torch::kFloat64);
  EXPECT_TRUE(near(answers(AlibiScale::kBatch, one),
                   answers(AlibiScale::kDomain, one), testing::kFloat64));
}

class ModelsEveryFieldNet : public ::testing::TestWithParam<std::string> {};

// First and second derivatives of a window that moves, against differences.
TEST_P(ModelsEveryFieldNet, DerivativesAgreeWithDifferences) {
  const auto net = make(GetParam());
  net->to(torch::kFloat64);
  const auto windows = testing::random({4, 5, 2}, "windows") * 0.4 + 0.5;
  const auto directions =
      torch::tensor({{1.0, 0.0}, {0.0, 1.0}}, torch::kFloat64);
  const JetLayout layout({2, 2});
  const auto u = net->forward(Jet::moving(windows, directions, layout));
  EXPECT_TRUE(near(u.value(), net->values(windows), testing::kFloat64));
  const double h = 1e-3;
  for (int64_t r = 0; r < 2; ++r) {
    // Differences of fourth order.
    const auto at = [&](double s) {
      return net->values(windows + s * directions[r]);
    };
    const auto first =
        (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
    const auto second =
        (16 * (at(h) + at(-h)) - (at(2 * h) + at(-2 * h)) - 30 * at(0)) /
        (12 * h * h);
    const double size = second.abs().max().item<double>() + 1;
    EXPECT_TRUE(
        near(u.rows()[layout.row(r, 1)] / size, first / size, kByDifferences));
    EXPECT_TRUE(near(2 * u.rows()[layout.row(r, 2)] / size, second / size,
                     kByDifferences));
  }
}

// One row that carries the sum of the coefficients of order 2, with signs, is
// the sum of the rows that carry each; and so is its gradient by all weights.
TEST_P(ModelsEveryFieldNet, OneRowCarriesASumOverDirections) {
  const auto net = make(GetParam());
  net->to(torch::kFloat64);
  const auto windows = testing::random({4, 5, 2}, "windows") * 0.4 + 0.5;
  const auto directions =
      torch::tensor({{1.5, 0.0}, {0.0, 0.5}, {1.0, 1.0}}, torch::kFloat64);
  std::vector<Tensor> trained;
  for (const auto& p : net->parameters()) {
    if (p.requires_grad()) trained.push_back(p);
  }
  // The rows, the last of them the sum, and the gradients of their mean.
  const auto run = [&](const JetLayout& layout) {
    const auto rows =
        net->forward(Jet::moving(windows, directions, layout)).rows();
    const auto sum =
        layout.is_summed_at(2) ? rows[4] : rows[4] - rows[5];  // x_2 - t_2
    const auto all = torch::cat({rows.narrow(0, 0, 4), sum.unsqueeze(0)});
    const auto weights = testing::random(all.sizes(), "weights");
    auto results = torch::autograd::grad({(all * weights).mean()}, trained);
    results.push_back(all);
    return results;
  };
  const auto one = run(JetLayout::summed({2, 2, 1}, {1, -1}));
  const auto each = run(JetLayout({2, 2, 1}));
  for (size_t i = 0; i < one.size(); ++i) {
    const double size = each[i].abs().max().item<double>() + 1e-9;
    EXPECT_TRUE(near(one[i] / size, each[i] / size, {1e-10, 1e-10})) << i;
  }
}

TEST_P(ModelsEveryFieldNet, GradientOfASecondDerivativeIsRight) {
  const auto net = make(GetParam());
  net->to(torch::kFloat64);
  const auto windows = testing::random({2, 3, 2}, "windows") * 0.4 + 0.5;
  const auto direction = torch::tensor({{0.0, 1.0}}, torch::kFloat64);
  const auto loss = [&] {
    const auto u =
        net->forward(Jet::moving(windows, direction, JetLayout({2})));
    return (2 * u.rows()[2] - u.value() * u.rows()[1]).square().mean();
  };
  // Along one direction in the space of all weights.
  double slope = 0;
  std::vector<Tensor> weights, ways;
  for (const auto& item : net->named_parameters()) {
    if (!item.value().requires_grad()) continue;
    weights.push_back(item.value());
    ways.push_back(testing::random(item.value().sizes(), item.key()) * 1e-2);
  }
  const auto gradients = torch::autograd::grad({loss()}, weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    slope += (gradients[i] * ways[i]).sum().item<double>();
  }
  const torch::NoGradGuard no_grad;
  const auto moved = [&](double s) {
    for (size_t i = 0; i < weights.size(); ++i) weights[i].add_(ways[i], s);
    const double value = loss().item<double>();
    for (size_t i = 0; i < weights.size(); ++i) weights[i].sub_(ways[i], s);
    return value;
  };
  const double h = 1e-4;
  const double difference =
      (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h);
  EXPECT_NEAR(slope / difference, 1, 1e-5);
}

TEST_P(ModelsEveryFieldNet, SeedsDecideWeights) {
  const auto a = make(GetParam()), b = make(GetParam());
  for (const auto& item : a->named_parameters()) {
    EXPECT_TRUE(torch::equal(item.value(), b->named_parameters()[item.key()]))
        << item.key();
  }
  b->initialise(4);
  bool differs = false;
  for (const auto& item : a->named_parameters()) {
    differs |= !torch::equal(item.value(), b->named_parameters()[item.key()]);
  }
  EXPECT_TRUE(differs);
}

INSTANTIATE_TEST_SUITE_P(Models, ModelsEveryFieldNet,
                         ::testing::Values("kan", "pinn", "pinn-mamba",
                                           "pinnsformer", "siren", "spformer",
                                           "spformer-alibi", "spformer-rope",
                                           "spformer-small"),
                         [](const auto& info) {
                           auto name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace propagator::models
