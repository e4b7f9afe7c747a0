#include "propagator/models/siren.h"

#include <torch/utils.h>

#include "jet_checks.h"
#include "propagator/nn/init.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using testing::near;
using testing::random;

const FieldDomain kSirenDomain{{-1, 0}, {3, 0.5}, 2, 1};

SirenOptions small_siren() {
  SirenOptions options;
  options.width = 5;
  options.layers = 2;
  options.first_w0 = 4;
  options.hidden_w0 = 6;
  return options;
}

std::shared_ptr<FieldNet> make(const SirenOptions& options) {
  auto net = options.make(kSirenDomain);
  net->initialise(5);
  net->to(torch::kFloat64);
  return net;
}

testing::MovingPoints siren_moving() {
  return {random({3, 2, 2}, "points") / 2 + 0.5, random({2, 2}, "directions")};
}

TEST(ModelsSiren, ParameterCountIsThatOfTheFormula) {
  for (const int64_t width : {1, 16, 128}) {
    for (const int64_t layers : {1, 2, 5}) {
      auto options = small_siren();
      options.width = width;
      options.layers = layers;
      for (const int64_t fields : {1, 3}) {
        const auto net = options.make({{0, 0, 0}, {1, 1, 1}, fields, 2});
        EXPECT_EQ(nn::parameter_count(*net),
                  4 * width + (layers - 1) * (width + 1) * width +
                      (width + 1) * fields);
      }
    }
  }
  EXPECT_FALSE(small_siren().windowed());
  EXPECT_EQ(small_siren().smoothness(), -1);
}

TEST(ModelsSiren, DerivativesToOrderFour) {
  auto net = make(small_siren());
  const auto f = testing::jet_map(*net);
  EXPECT_TRUE(
      testing::derivatives_are_nested(f, siren_moving(), 4, {1e-9, 1e-8}));
  EXPECT_TRUE(
      testing::derivatives_are_differences(f, siren_moving(), 4, {1e-6, 1e-4}));
  for (int64_t order = 1; order <= 4; ++order) {
    EXPECT_TRUE(testing::parameter_gradients_are_nested(*net, f, siren_moving(),
                                                        order, {1e-8, 1e-6}))
        << order;
  }
}

TEST(ModelsSiren, AxesOfTheDomainRunFromMinusOneToOne) {
  // The same weights on the square, at the same places of it.
  const FieldDomain square{{-1, -1}, {1, 1}, 2, 1};
  auto net = make(small_siren());
  auto plain = small_siren().make(square);
  plain->initialise(5);
  plain->to(torch::kFloat64);
  const auto place = random({4, 1, 2}, "place");
  const auto low = torch::tensor(kSirenDomain.low, torch::kFloat64);
  const auto high = torch::tensor(kSirenDomain.high, torch::kFloat64);
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(near(net->values(low + (high - low) * (place + 1) / 2),
                   plain->values(place), {1e-11, 1e-12}));
}

TEST(ModelsSiren, EachPointIsByItself) {
  auto net = make(small_siren());
  const torch::NoGradGuard no_grad;
  const auto points = siren_moving().points;  // (N, T, D)
  EXPECT_TRUE(near(net->values(points).view({-1, 1, 2}),
                   net->values(points.view({-1, 1, 2})), {1e-11, 1e-12}));
}

TEST(ModelsSiren, EveryParameterHasItsOwnStream) {
  // One layer more leaves the weights before it as they were.
  auto options = small_siren();
  const auto a = make(options);
  options.layers = 3;
  const auto b = make(options);
  const auto p = a->named_parameters(), q = b->named_parameters();
  EXPECT_TRUE(torch::equal(p["net.layer1.linear.weight"],
                           q["net.layer1.linear.weight"]));
  EXPECT_FALSE(torch::equal(q["net.layer1.linear.weight"],
                            q["net.layer2.linear.weight"]));
}

}  // namespace
}  // namespace propagator::models
