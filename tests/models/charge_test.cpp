#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/models/event_former.h"
#include "propagator/models/hit_former.h"
#include "propagator/nn/init.h"
#include "small_detector.h"

// Locators of hits that come with charges.

namespace propagator::models {
namespace {

using testing::gradient_is_right;
using testing::near;
using testing::random;
using testing::small_detector;
using testing::thrown;
using torch::Tensor;

DetectorShape charged_detector() {
  auto shape = small_detector();
  shape.charge = true;
  return shape;
}

Hits charged_hits() {
  auto hits = testing::small_hits();
  hits.charges = torch::round(5 + 4 * random({5, 6}, "charges")) * hits.hit;
  return hits;
}

std::vector<std::shared_ptr<Locator>> charged_models() {
  std::vector<std::shared_ptr<Locator>> all;
  for (const auto summary : {EventSummary::kToken, EventSummary::kMean}) {
    EventFormerOptions options;
    options.summary = summary;
    options.dropout = 0;
    all.push_back(options.make(charged_detector()));
  }
  for (const bool unhit : {true, false}) {
    HitFormerOptions options;
    options.unhit = unhit;
    options.width = 8, options.heads = 2, options.layers = 2;
    all.push_back(options.make(charged_detector()));
  }
  for (auto& model : all) {
    model->initialise(4);
    model->to(torch::kFloat64);
  }
  return all;
}

TEST(ModelsCharge, ChargesOfHitsAreReadAndNoOthers) {
  for (auto& model : charged_models()) {
    const auto hits = charged_hits();
    const auto one = model->forward(hits).position;
    auto more = hits;
    more.charges = torch::where(hits.hit, hits.charges,
                                7 * torch::ones({5, 6}).to(torch::kFloat64));
    EXPECT_TRUE(torch::equal(model->forward(more).position, one));
    more.charges = hits.charges + 1 * hits.hit;
    EXPECT_GT((model->forward(more).position - one).abs().min().item<double>(),
              1e-9);
  }
}

TEST(ModelsCharge, GradientByChargesIsThatOfDifferences) {
  for (auto& model : charged_models()) {
    auto hits = charged_hits();
    EXPECT_TRUE(gradient_is_right(
        [&](const Tensor& charges) {
          hits.charges = charges;
          return model->forward(hits).position.square().mean();
        },
        hits.charges.clone(), {1e-5, 1e-8}));
  }
}

TEST(ModelsCharge, TokensOfTheLectureTakeALinearMapOfTheLogarithm) {
  // A weight of zero is the lecture's network without charges.
  EventFormerOptions options;
  options.dropout = 0;
  auto with = options.make(charged_detector()),
       without = options.make(small_detector());
  EXPECT_EQ(nn::parameter_count(*with), nn::parameter_count(*without) + 32);
  for (auto& model : {with, without}) {
    model->initialise(4);
    model->to(torch::kFloat64);
  }
  const torch::NoGradGuard no_grad;
  auto weight = with->named_parameters()["charge.weight"];
  weight.zero_();
  EXPECT_TRUE(near(with->forward(charged_hits()).position,
                   without->forward(charged_hits()).position, {1e-10, 1e-11}));
  // log(1 + n) of one number of photoelectrons is a constant of the token.
  auto hits = charged_hits();
  hits.charges = 3.0 * hits.hit;
  weight.copy_(random({32, 1}, "weight"));
  auto moved = without->named_parameters()["time.bias"];
  moved.add_(weight.squeeze(1) * std::log(4.0));
  EXPECT_TRUE(near(with->forward(hits).position,
                   without->forward(hits).position, {1e-9, 1e-10}));
}

TEST(ModelsCharge, OrderOfSensorsDoesNotMatterToHits) {
  const auto order = torch::tensor({4, 2, 0, 5, 1, 3});
  for (const bool unhit : {true, false}) {
    HitFormerOptions options;
    options.unhit = unhit;
    auto model = options.make(charged_detector());
    model->initialise(4);
    model->to(torch::kFloat64);
    const auto hits = charged_hits();
    auto other = testing::reordered(hits, order);
    other.charges = hits.charges.index_select(1, order);
    EXPECT_TRUE(near(model->forward(other).position,
                     model->forward(hits).position, {1e-9, 1e-10}));
  }
}

TEST(ModelsCharge, MissingChargesAreRefused) {
  for (auto& model : charged_models()) {
    const auto message =
        thrown<UsageError>([&] { model->forward(testing::small_hits()); });
    EXPECT_NE(message.find("expected charges (5, 6), got none"),
              std::string::npos)
        << message;
    auto hits = charged_hits();
    hits.charges = hits.charges.slice(1, 1);
    EXPECT_NE(thrown<UsageError>([&] { model->forward(hits); }).find("(5, 5)"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace propagator::models
