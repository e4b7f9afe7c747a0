#include "propagator/nn/film.h"

#include <torch/utils.h>

#include "jet_checks.h"
#include "propagator/nn/init.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;
using torch::Tensor;

constexpr int64_t kCondition = 3, kFeatures = 4;

class NnFilmFrequency : public ::testing::TestWithParam<bool> {
 protected:
  // In float64, away from its start.
  NnFilmFrequency() {
    film_->to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    for (auto& item : film_->named_parameters()) {
      item.value().add_(random(item.value().sizes(), item.key()) / 2);
    }
  }

  Film film_{FilmOptions{
      .condition = kCondition, .features = kFeatures, .frequency = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Nn, NnFilmFrequency, ::testing::Bool());

// Features and a condition that depend on points as a network's would.
Jet features(const Jet& points) {
  return autodiff::sin(
      autodiff::linear(points, random({kFeatures, 2}, "features")));
}
Jet condition(const Jet& points) {
  return autodiff::tanh(
      autodiff::linear(points, random({kCondition, 2}, "condition")));
}

testing::MovingPoints moving() {
  return {random({3, 2, 2}, "points"), random({2, 2}, "directions")};
}

TEST_P(NnFilmFrequency, ChangesNothingAtTheStart) {
  film_->reset();
  const Film fresh(FilmOptions{
      .condition = kCondition, .features = kFeatures, .frequency = GetParam()});
  const auto parameters = fresh->named_parameters();
  for (const auto& item : film_->named_parameters()) {
    EXPECT_TRUE(
        torch::equal(item.value(), parameters[item.key()].to(torch::kFloat64)));
  }
  const auto at = moving();
  const auto points = Jet::moving(at.points, at.directions, JetLayout({2, 1}));
  const auto x = features(points);
  const auto y = film_->forward(x, condition(points));
  EXPECT_TRUE(torch::equal(y.rows(), x.rows()));
}

TEST_P(NnFilmFrequency, EqualsItsFormulaInPlainOperations) {
  const auto points = Jet::constant(moving().points);
  const auto x = features(points).value(), c = condition(points).value();
  const auto parameters = film_->named_parameters();
  const auto all =
      torch::linear(c, parameters["linear.weight"], parameters["linear.bias"])
          .split(kFeatures, -1);
  ASSERT_EQ(all.size(), GetParam() ? 3u : 2u);
  auto expected = all[0] * x + all[1];
  if (GetParam()) expected = all[2] * expected;
  EXPECT_TRUE(near(film_->forward(features(points), condition(points)).value(),
                   expected, kFloat64));
  EXPECT_EQ(parameter_count(*film_),
            (kCondition + 1) * kFeatures * (GetParam() ? 3 : 2));
}

TEST_P(NnFilmFrequency, DerivativesToOrderFour) {
  const auto f = [&](const Jet& points) {
    return film_->forward(features(points), condition(points));
  };
  EXPECT_TRUE(testing::derivatives_are_nested(f, moving(), 4, {1e-10, 1e-11}));
  EXPECT_TRUE(
      testing::derivatives_are_differences(f, moving(), 4, {1e-6, 1e-8}));
  for (int64_t order = 1; order <= 4; ++order) {
    EXPECT_TRUE(testing::parameter_gradients_are_nested(*film_, f, moving(),
                                                        order, {1e-9, 1e-10}))
        << order;
  }
}

TEST_P(NnFilmFrequency, AConditionThatStandsStillServesAllPoints) {
  // Of one vector for all; it makes the map of the features affine, so that
  // their derivatives are scaled alone.
  const auto at = moving();
  const auto x =
      features(Jet::moving(at.points, at.directions, JetLayout({3, 1})));
  const auto c = random({kCondition}, "one condition");
  const auto y = film_->forward(x, Jet::constant(c));
  const auto repeated =
      film_->forward(x, Jet::constant(c.expand({3, 2, kCondition})));
  EXPECT_TRUE(near(y.rows(), repeated.rows(), kFloat64));
  const auto by = film_->modulation(Jet::constant(c));
  auto scale = by.gamma().value();
  if (GetParam()) scale = scale * by.omega().value();
  EXPECT_TRUE(
      near(y.rows().slice(0, 1), scale * x.rows().slice(0, 1), kFloat64));
}

}  // namespace
}  // namespace propagator::nn
