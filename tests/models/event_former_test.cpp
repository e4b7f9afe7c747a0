#include "propagator/models/event_former.h"

#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "propagator/train/checkpoint.h"
#include "small_detector.h"

namespace propagator::models {
namespace {

using testing::gradient_is_right;
using testing::near;
using testing::random;
using testing::small_detector;
using testing::small_hits;
using testing::thrown;

std::shared_ptr<Locator> make(const EventFormerOptions& options = {}) {
  auto model = options.make(small_detector());
  model->initialise(4);
  model->to(torch::kFloat64);
  return model;
}

EventFormerOptions with_positions(bool positions) {
  EventFormerOptions options;
  options.positions = positions;
  return options;
}

TEST(ModelsEventFormer, DocumentsModelsHaveTheirParameters) {
  // Nine embeddings, the time's and the position's layer, the encoder's layers
  // and the output, from the lecture's listing.
  constexpr int64_t kLayer = 8544;
  for (const int64_t layers : {2, 5}) {
    for (const bool positions : {false, true}) {
      auto options = with_positions(positions);
      options.layers = layers;
      EXPECT_EQ(nn::parameter_count(*options.make(DetectorShape{})),
                9 * 32 + 2 * 32 + (positions ? 4 * 32 : 0) + layers * kLayer +
                    3 * 32 + 3);
    }
  }
  EXPECT_EQ(nn::parameter_count(*EventFormerOptions().make({})), 17'539);
}

TEST(ModelsEventFormer, TokensAreThoseOfTheDocument) {
  for (const bool positions : {false, true}) {
    auto model = make(with_positions(positions));
    model->eval();
    const auto hits = small_hits();
    auto p = model->named_parameters();
    // Token by token, then through an encoder of the same weights.
    auto tokens = torch::zeros({5, 7, 32}, torch::kFloat64);
    auto padding = torch::zeros({5, 7}, torch::kBool);
    const torch::NoGradGuard no_grad;
    for (int64_t b = 0; b < 5; ++b) {
      tokens[b][0] = p["embedding.weight"][0];
      for (int64_t s = 0; s < 6; ++s) {
        auto token = p["embedding.weight"][s + 1] + p["time.bias"] +
                     p["time.weight"].select(1, 0) * hits.times[b][s];
        if (positions) {
          token += torch::mv(p["position.weight"], hits.positions[s]) +
                   p["position.bias"];
        }
        tokens[b][s + 1] = token;
        padding[b][s + 1] = !hits.hit[b][s].item<bool>();
      }
    }
    nn::SetEncoder encoder{nn::SetEncoderOptions{}};
    encoder->to(torch::kFloat64);
    encoder->eval();
    for (auto& item : encoder->named_parameters()) {
      item.value().copy_(p["encoder." + item.key()]);
    }
    const auto summary = encoder->forward({tokens, padding}).select(1, 0);
    const auto expected =
        torch::matmul(summary, p["output.weight"].t()) + p["output.bias"];
    const auto located = model->forward(hits);
    EXPECT_TRUE(near(located.position, expected, {1e-10, 1e-11}));
    EXPECT_FALSE(located.factor.defined());
  }
}

TEST(ModelsEventFormer, SensorsThatWereNotHitSayNothing) {
  auto model = make(with_positions(true)), same = make(with_positions(true));
  EXPECT_TRUE(torch::equal(
      model->forward(small_hits()).position,
      same->forward(testing::with_other_times_unhit(small_hits())).position));
}

TEST(ModelsEventFormer, GradientByTimesIsThatOfDifferences) {
  auto model = make();
  model->eval();
  auto hits = small_hits();
  const auto truth = random({5, 3}, "truth");
  EXPECT_TRUE(gradient_is_right(
      [&](const torch::Tensor& times) {
        hits.times = times;
        return (model->forward(hits).position - truth).square().mean();
      },
      hits.times.clone(), {1e-5, 1e-7}));
}

TEST(ModelsEventFormer, InitialWeightsAreThoseOfTheDocumentsFramework) {
  EventFormerOptions options;
  options.width = 64;
  auto model = options.make({.sensors = 999});
  model->initialise(4);
  auto p = model->named_parameters();
  const auto e = p["embedding.weight"].to(torch::kFloat64);
  // 64 000 normal numbers: five deviations of the mean, and of the variance.
  EXPECT_NEAR(e.mean().item<double>(), 0, 5 / std::sqrt(64'000.0));
  EXPECT_NEAR(e.square().mean().item<double>(), 1, 5 * std::sqrt(2 / 64'000.0));
  const double bound = std::sqrt(6.0 / (64 + 192));
  const auto& qkv = p["encoder.layer0.qkv.weight"];
  const double most = qkv.abs().max().item<double>();
  EXPECT_LE(most, bound);
  EXPECT_GT(most, 0.99 * bound);
  for (const auto* name : {"qkv.bias", "output.bias", "norm1.bias"}) {
    const auto& bias = p[std::string("encoder.layer1.") + name];
    EXPECT_EQ(bias.abs().max().item<double>(), 0) << name;
  }
  EXPECT_FALSE(torch::equal(qkv, p["encoder.layer1.qkv.weight"]));
  EXPECT_GT(p["time.weight"].abs().max().item<double>(), 0.8);
}

TEST(ModelsEventFormer, ResumedTrainingDropsTheSame) {
  auto model = make(), resumed = make();
  const auto hits = small_hits();
  const auto first = model->forward(hits).position;
  const auto saved = train::copy_parameters(*model);
  const auto second = model->forward(hits).position;
  EXPECT_FALSE(torch::equal(first, second));
  train::set_parameters(*resumed, saved, "here");
  EXPECT_TRUE(torch::equal(resumed->forward(hits).position, second));
}

TEST(ModelsEventFormer, ObserverSeesEachSensorsWeight) {
  auto model = make();
  const auto hits = small_hits();
  int64_t layers = 0;
  model->observe([&](int64_t layer, const torch::Tensor& weights) {
    EXPECT_EQ(layer, layers++);
    EXPECT_EQ(weights.sizes().vec(), (std::vector<int64_t>{5, 4, 6}));
    EXPECT_TRUE((weights.sum(2) < 1).all().item<bool>());
    const auto hit = hits.hit.unsqueeze(1).expand_as(weights);
    EXPECT_TRUE(torch::equal(weights > 0, hit));
  });
  model->forward(hits);
  EXPECT_EQ(layers, 2);
  model->observe({});
  model->forward(hits);
  EXPECT_EQ(layers, 2);
}

TEST(ModelsEventFormer, RefusesWhatDoesNotFit) {
  EventFormerOptions options;
  options.heads = 5;
  EXPECT_NE(thrown<ConfigError>([&] { options.make({}); }).find("got 5"),
            std::string::npos);
  auto other = EventFormerOptions().make({.sensors = 8});
  EXPECT_EQ(thrown<UsageError>([&] { other->forward(small_hits()); }),
            "[event_former] expected hits of 8 sensors, got 6");
}

}  // namespace
}  // namespace propagator::models
