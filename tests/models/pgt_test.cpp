#include "propagator/models/pgt.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "jet_checks.h"
#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "propagator/train/checkpoint.h"
#include "testing.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using testing::random;
using torch::Tensor;

const FieldDomain kRod{.low = {0, 0}, .high = {2, 1}, .fields = 2, .time = 1};

PgtOptions small(PgtDecoder decoder = PgtDecoder::kFilmSiren) {
  PgtOptions options;
  options.width = 8;
  options.heads = 2;
  options.layers = 1;
  options.feed_forward = 6;
  options.decoder = decoder;
  options.decoder_width = 5;
  options.decoder_layers = 2;
  options.first_w0 = options.hidden_w0 = 2;
  options.green.rate = 0.3;
  return options;
}

autodiff::Observations seven_readings() {
  auto readings = random({7, 2}, "readings");
  readings[3][1] = std::nan("");
  return {torch::stack({1 + random({7}, "x"), 0.5 + 0.5 * random({7}, "t")}, 1),
          readings};
}

// With weights everywhere, so that nothing is without effect: FiLM begins
// with zeros.
std::shared_ptr<Pgt> made(const PgtOptions& options) {
  auto net = std::make_shared<Pgt>(options, kRod);
  net->to(torch::kFloat64);
  net->initialise(1);
  const torch::NoGradGuard no_grad;
  for (auto& item : net->named_parameters()) {
    if (!item.value().requires_grad()) continue;
    if (item.key() == "green_parameters") continue;
    item.value().add_(0.2 * random(item.value().sizes(), item.key()));
  }
  net->observe(seven_readings());
  return net;
}

const testing::MovingPoints kPlaces{
    torch::stack(
        {1 + 0.5 * random({3, 1}, "px"), 0.5 + 0.3 * random({3, 1}, "pt")}, -1),
    torch::tensor({{1., 0.}, {0., 1.}, {1., 1.}}, torch::kFloat64)};

TEST(ModelsPgt, DerivativesAndGradientsAreThoseOfReverseMode) {
  for (const auto decoder : {PgtDecoder::kFilmSiren, PgtDecoder::kSiren,
                             PgtDecoder::kFilmMlp, PgtDecoder::kMlp}) {
    const auto net = made(small(decoder));
    const auto map = testing::jet_map(*net);
    const testing::Tolerance exact{1e-9, 1e-9};
    EXPECT_TRUE(testing::derivatives_are_nested(map, kPlaces, 2, exact))
        << config::name_of(decoder);
    EXPECT_TRUE(
        testing::derivatives_are_differences(map, kPlaces, 2, {1e-5, 1e-6}))
        << config::name_of(decoder);
    EXPECT_TRUE(
        testing::parameter_gradients_are_nested(*net, map, kPlaces, 2, exact))
        << config::name_of(decoder);
  }
}

// values() may take kernels that the constants of nested reverse mode may not.
TEST(ModelsPgt, ValuesAndTheirGradientAreThoseOfPlainOperations) {
  const auto net = made(small());
  std::vector<Tensor> trained;
  for (const auto& value : net->parameters()) {
    if (value.requires_grad()) trained.push_back(value);
  }
  const auto gradients = [&](const Tensor& fields) {
    return torch::autograd::grad({fields.square().sum()}, trained, {}, {},
                                 false, /*allow_unused=*/true);
  };
  const auto plain = net->forward(Jet::constant(kPlaces.points)).value();
  const auto values = net->values(kPlaces.points);
  EXPECT_TRUE(testing::near(values, plain, {1e-12, 1e-12}));
  const auto ours = gradients(values), expected = gradients(plain);
  for (size_t n = 0; n < ours.size(); ++n) {
    ASSERT_EQ(ours[n].defined(), expected[n].defined()) << n;
    if (!ours[n].defined()) continue;
    EXPECT_TRUE(testing::near(ours[n], expected[n], {1e-10, 1e-11})) << n;
  }
}

TEST(ModelsPgt, TheRateOfTheGreensFunctionIsLearnedIfAskedFor) {
  auto options = small();
  options.learn_green = true;
  const auto net = made(options);
  net->values(kPlaces.points).square().sum().backward();
  const auto rate = net->named_parameters()["green_parameters"];
  ASSERT_TRUE(rate.grad().defined());
  const auto loss_at = [&](double value) {
    const torch::NoGradGuard no_grad;
    rate[0].fill_(value);
    return net->values(kPlaces.points).square().sum().item<double>();
  };
  const double step = 1e-5, at = rate[0].item<double>();
  const double difference =
      (loss_at(at + step) - loss_at(at - step)) / (2 * step);
  EXPECT_NEAR(rate.grad()[0].item<double>(), difference,
              1e-6 * std::abs(difference) + 1e-10);
  EXPECT_NE(difference, 0);
}

TEST(ModelsPgt, SensorsAreASetAndWhatWasNotReadCountsForNothing) {
  const auto net = made(small());
  const auto before = net->values(kPlaces.points);
  auto read = seven_readings();
  const auto order = torch::tensor({6, 2, 0, 3, 1, 5, 4});
  net->observe({read.points.index_select(0, order),
                read.readings.index_select(0, order)});
  EXPECT_TRUE(
      testing::near(net->values(kPlaces.points), before, {1e-12, 1e-12}));
  read.readings[0][0] += 1;
  net->observe(read);
  EXPECT_GT((net->values(kPlaces.points) - before).abs().max().item<double>(),
            1e-6);
}

TEST(ModelsPgt, TheGreensFunctionChangesTheAnswer) {
  const auto with = made(small());
  auto options = small();
  options.green.kind = kernels::GreenKind::kNone;
  const auto without = made(options);
  EXPECT_GT((with->values(kPlaces.points) - without->values(kPlaces.points))
                .abs()
                .max()
                .item<double>(),
            1e-6);
}

// What the attention plans from the places is of those that were read last.
TEST(ModelsPgt, OtherSensorsAreSeenAgain) {
  auto options = small();
  options.width = 16;  // heads that have a kernel
  const auto net = made(options), fresh = made(options);
  const auto points = random({5, 1, 2}, "points");
  const auto before = net->values(points);
  auto read = seven_readings();
  read.points.select(1, 1).copy_(1 - read.points.select(1, 1));
  net->observe(read);
  fresh->observe(read);
  EXPECT_TRUE(torch::equal(net->values(points), fresh->values(points)));
  EXPECT_FALSE(torch::allclose(net->values(points), before));
  // In another type, too.
  net->to(torch::kFloat32);
  EXPECT_TRUE(testing::near(net->values(points.to(torch::kFloat32)),
                            fresh->values(points), {1e-4, 1e-4}));
}

TEST(ModelsPgt, WhatIsHeldGivesTheSameBits) {
  const auto net = made(small());
  const auto before = net->values(kPlaces.points);
  const auto held = net->hold();
  EXPECT_TRUE(torch::equal(net->values(kPlaces.points), before));
  EXPECT_EQ(net->hold(), nullptr) << "once is enough";
}

TEST(ModelsPgt, ItsFileHasTheReadingsWhoseNumberItTakesFromThere) {
  const auto net = made(small());
  auto stored = train::copy_parameters(*net);
  Pgt other(small(), kRod);
  other.to(torch::kFloat64);
  EXPECT_THROW(other.values(kPlaces.points), UsageError) << "no readings yet";
  train::set_parameters(other, stored, "test");
  EXPECT_TRUE(
      torch::equal(other.values(kPlaces.points), net->values(kPlaces.points)));
  stored["sensor_places"] = torch::zeros({7, 3}, torch::kFloat64);
  EXPECT_THROW(train::set_parameters(other, stored, "test"), DataError);
}

TEST(ModelsPgt, OptionsThatContradictTheDomainAreRefused) {
  auto options = small();
  options.heads = 3;
  EXPECT_THROW(options.validate(kRod), ConfigError);
  options = small();
  options.green.dimensions = 2;
  EXPECT_THROW(options.validate(kRod), ConfigError);
  const FieldDomain still{.low = {0}, .high = {1}};
  EXPECT_THROW(small().validate(still), ConfigError) << "heat without time";
  options = small();
  options.green.kind = kernels::GreenKind::kPoisson;
  EXPECT_NO_THROW(options.validate(still));
}

}  // namespace
}  // namespace propagator::models
