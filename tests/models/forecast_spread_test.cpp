#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/models/forecast_ensemble.h"
#include "propagator/models/heat_former.h"
#include "propagator/train/tuning.h"
#include "small_heat_former.h"
#include "testing.h"

namespace propagator::models {
namespace {

using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;
using propagator::testing::small_options;
using propagator::testing::thrown;

constexpr FieldShape kSpreadShape{12, 5, 6, /*variance=*/true};
const auto kTwoAlphas = torch::tensor({0.02, 0.09}, torch::kFloat64);

torch::Tensor two_plates() { return random({2, 12, 5, 6}, "spread frames"); }

std::shared_ptr<HeatFormer> spread_model(const HeatFormerOptions& options,
                                         int64_t seed = 1) {
  auto model = std::make_shared<HeatFormer>(options, kSpreadShape);
  nn::initialise(*model, seed);
  model->to(torch::kFloat64);
  model->calibrate([given = false]() mutable -> torch::Tensor {
    if (std::exchange(given, true)) return {};
    auto frames = two_plates();
    // A node that never changes leaves no doubt.
    frames.select(2, 0).select(2, 0).copy_(torch::ones({2, 12}));
    return frames;
  });
  return model;
}

torch::Tensor noise_of(int64_t t) {
  return random({2, 1, 5, 6}, "noise " + std::to_string(t));
}

std::vector<HeatFormerOptions> all_options() {
  std::vector<HeatFormerOptions> all;
  for (const auto mask : {MaskType::kBlock, MaskType::kCausal}) {
    for (const auto predicts :
         {Predicts::kField, Predicts::kChange, Predicts::kScaledChange}) {
      for (const auto scaling : {Scaling::kNone, Scaling::kCase}) {
        auto options = small_options(mask);
        options.predicts = predicts;
        options.scaling = scaling;
        all.push_back(options);
      }
    }
  }
  return all;
}

// What the likelihood is of, node by node.
TEST(ModelsForecastSpread, TheMeanIsTheForecastOfTheModelWithout) {
  for (const auto& options : all_options()) {
    const auto with = spread_model(options);
    HeatFormer without(options, {12, 5, 6});
    without.to(torch::kFloat64);
    const torch::NoGradGuard no_grad;
    auto theirs = with->named_parameters();
    for (auto& item : without.named_parameters()) {
      item.value().copy_(theirs[item.key()]);
    }
    const auto spread = with->spread(two_plates(), kTwoAlphas);
    EXPECT_TRUE(
        torch::equal(spread.mean, without.forward(two_plates(), kTwoAlphas)));
    EXPECT_TRUE(
        torch::equal(spread.mean, with->forward(two_plates(), kTwoAlphas)));
    const bool scaled = options.predicts == Predicts::kScaledChange;
    const auto corner = spread.deviation.select(2, 0).select(2, 0);
    EXPECT_EQ(corner.eq(0).all().item<bool>(), scaled);
    EXPECT_TRUE(
        (spread.deviation.slice(1, 3).slice(3, 1) > 0).all().item<bool>());
  }
}

// The layer that makes the answer has both parts; without a variance the model
// has the parameters that it always had.
TEST(ModelsForecastSpread, TheVarianceIsAPartOfItsOwn) {
  const auto options = small_options(MaskType::kBlock);
  const auto model = spread_model(options);
  const HeatFormer without(options, {12, 5, 6});
  EXPECT_EQ(nn::parameter_count(*model),
            nn::parameter_count(without) + 16 * 30 + 30);
  EXPECT_EQ(train::last_layer_of(*model).size(), 4u);
  EXPECT_EQ(train::last_layer_of(without),
            (std::vector<std::string>{"output.weight", "output.bias"}));
}

// However negative the raw number, the deviation is 1e-5 units at least, and
// the likelihood still has a gradient there.
TEST(ModelsForecastSpread, DeviationsHaveAFloorWithAGradient) {
  const auto model = spread_model(small_options(MaskType::kBlock));
  auto parameters = model->named_parameters();
  const auto with_bias = [&](double bias) {
    {
      const torch::NoGradGuard no_grad;
      parameters["variance.weight"].zero_();
      parameters["variance.bias"].fill_(bias);
    }
    return model->spread(two_plates(), kTwoAlphas).deviation;
  };
  EXPECT_NEAR(with_bias(0).min().item<double>(), 1, 1e-9);
  EXPECT_NEAR(with_bias(-4).max().item<double>(), std::exp(-2), 1e-8);
  const auto low = with_bias(-30);
  EXPECT_GT(low.min().item<double>(), 0.9e-5);
  EXPECT_LT(low.max().item<double>(), 1.1e-5);
  low.log().sum().backward();
  EXPECT_GT(parameters["variance.bias"].grad().abs().min().item<double>(), 0);
  EXPECT_TRUE(torch::isfinite(with_bias(1e6)).all().item<bool>());
}

// Keys and values are cached as frames are drawn. All frames at once, given
// what was drawn, must have said the same of each.
TEST(ModelsForecastSpread, CachedDrawsEqualThoseOfWholePasses) {
  for (const auto& options : all_options()) {
    const auto model = spread_model(options);
    const torch::NoGradGuard no_grad;
    const auto first = two_plates().narrow(1, 0, 3);
    const auto drawn = model->draw(first, kTwoAlphas, noise_of);
    EXPECT_TRUE(torch::equal(drawn.narrow(1, 0, 3), first));
    const auto [mean, deviation] = model->spread(drawn, kTwoAlphas);
    for (int64_t t = 3; t < 12; ++t) {
      const auto expected =
          mean.narrow(1, t, 1) + deviation.narrow(1, t, 1) * noise_of(t);
      EXPECT_TRUE(near(drawn.narrow(1, t, 1), expected, {1e-9, 1e-10})) << t;
    }
    const auto still = model->draw(first, kTwoAlphas, [](int64_t) {
      return torch::zeros({2, 1, 5, 6}, torch::kFloat64);
    });
    EXPECT_TRUE(near(still, model->predict(first, kTwoAlphas), kFloat64));
  }
}

TEST(ModelsForecastSpread, AModelWithoutAVarianceSaysSo) {
  HeatFormer model(small_options(MaskType::kBlock), {12, 5, 6});
  const auto first = two_plates().narrow(1, 0, 3).to(torch::kFloat32);
  const auto alpha = kTwoAlphas.to(torch::kFloat32);
  for (const auto& message :
       {thrown<UsageError>([&] { model.spread(first, alpha); }),
        thrown<UsageError>([&] { model.draw(first, alpha, noise_of); })}) {
    EXPECT_NE(message.find("predicts no variance"), std::string::npos);
  }
}

// The mean and variance of a mixture of normal numbers, from its draws' own
// definition.
TEST(ModelsForecastSpread, AnEnsembleIsTheMixtureOfItsMembers) {
  const auto options = small_options(MaskType::kBlock);
  const auto one = spread_model(options, 1), two = spread_model(options, 2);
  ForecastEnsemble both({one, two});
  const torch::NoGradGuard no_grad;
  const auto first = two_plates().narrow(1, 0, 3);
  const auto a = one->spread(first, kTwoAlphas);
  const auto b = two->spread(first, kTwoAlphas);
  const auto all = both.spread(first, kTwoAlphas);
  const auto second_moment = (a.mean.square() + a.deviation.square() +
                              b.mean.square() + b.deviation.square()) /
                             2;
  EXPECT_TRUE(near(all.mean, (a.mean + b.mean) / 2, kFloat64));
  EXPECT_TRUE(near(all.deviation.square(), second_moment - all.mean.square(),
                   {1e-10, 1e-12}));
  EXPECT_TRUE(near(both.forward(first, kTwoAlphas), all.mean, kFloat64));
  EXPECT_EQ(both.members().size(), 2u);
  EXPECT_EQ(nn::parameter_count(both), 2 * nn::parameter_count(*one));
}

TEST(ModelsForecastSpread, EnsemblesRefuseWhatDoesNotFit) {
  const auto block = spread_model(small_options(MaskType::kBlock));
  const auto refused = [&](std::shared_ptr<Forecaster> other) {
    return thrown<UsageError>([&] { ForecastEnsemble({block, other}); });
  };
  EXPECT_NE(refused(spread_model(small_options(MaskType::kCausal)))
                .find("goes from frame to frame"),
            std::string::npos);
  EXPECT_NE(refused(std::make_shared<HeatFormer>(
                        small_options(MaskType::kBlock), FieldShape{12, 5, 6}))
                .find("predicts no variance"),
            std::string::npos);
  auto more = small_options(MaskType::kBlock);
  more.visible = 4;
  EXPECT_NE(refused(spread_model(more)).find("is given 4 frames"),
            std::string::npos);
  EXPECT_NE(thrown<UsageError>([&] {
              ForecastEnsemble({block});
            }).find("two members"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::models
