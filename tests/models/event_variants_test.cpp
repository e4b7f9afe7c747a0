#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/models/event_former.h"
#include "propagator/nn/init.h"
#include "propagator/train/checkpoint.h"
#include "small_detector.h"

// The event_former with other encodings of time and other summaries than the
// lecture's listing has.

namespace propagator::models {
namespace {

using testing::gradient_is_right;
using testing::near;
using testing::random;
using testing::small_detector;
using testing::small_hits;
using testing::thrown;
using torch::Tensor;

constexpr testing::Tolerance kVariantSums{1e-9, 1e-10};
constexpr EventSummary kOfHits[] = {EventSummary::kMean, EventSummary::kSum,
                                    EventSummary::kLast, EventSummary::kQuery};
constexpr TimeEncoding kTimes[] = {
    TimeEncoding::kLinear, TimeEncoding::kSinusoidal, TimeEncoding::kNetwork};

EventFormerOptions variant(TimeEncoding time, EventSummary summary,
                           bool positions = false) {
  EventFormerOptions options;
  options.time = time;
  options.summary = summary;
  options.positions = positions;
  return options;
}

std::shared_ptr<Locator> make_variant(const EventFormerOptions& options) {
  auto model = options.make(small_detector());
  model->initialise(4);
  model->to(torch::kFloat64);
  return model;
}

// The tokens of the hits as the class comment has them, one by one, and their
// encoded selves by an encoder of the same weights: (5, 6, 32).
struct ByHand {
  explicit ByHand(const EventFormerOptions& options, Locator& model) {
    const auto hits = small_hits();
    auto p = model.named_parameters();
    const torch::NoGradGuard no_grad;
    tokens = torch::zeros({5, 6, 32}, torch::kFloat64);
    for (int64_t b = 0; b < 5; ++b) {
      for (int64_t s = 0; s < 6; ++s) {
        tokens[b][s] = p["embedding.weight"][s] +
                       time_of(options, p, hits.times[b][s].item<double>());
      }
    }
    nn::SetEncoder encoder{nn::SetEncoderOptions{}};
    encoder->to(torch::kFloat64);
    encoder->eval();
    for (auto& item : encoder->named_parameters()) {
      item.value().copy_(p["encoder." + item.key()]);
    }
    encoded = encoder->forward({tokens, hits.hit.logical_not()});
  }

  static Tensor time_of(const EventFormerOptions& options,
                        torch::OrderedDict<std::string, Tensor>& p, double t) {
    if (options.time == TimeEncoding::kLinear) {
      return p["time.weight"].select(1, 0) * t + p["time.bias"];
    }
    if (options.time == TimeEncoding::kNetwork) {
      const auto inner = p["time_hidden.weight"].select(1, 0) * (t * 0.2 / 10) +
                         p["time_hidden.bias"];
      return torch::mv(p["time.weight"], torch::gelu(inner)) + p["time.bias"];
    }
    auto waves = torch::zeros({32}, torch::kFloat64);
    for (int n = 0; n < 16; ++n) {
      const double phase = t / std::pow(10000.0, 2 * n / 32.0);
      waves[2 * n] = std::sin(phase);
      waves[2 * n + 1] = std::cos(phase);
    }
    return waves;
  }

  Tensor tokens, encoded;
};

TEST(ModelsEventVariants, SummariesAreThoseOfTheHitsAlone) {
  const auto hits = small_hits();
  for (const auto time : kTimes) {
    for (const auto summary :
         {EventSummary::kMean, EventSummary::kSum, EventSummary::kLast}) {
      const auto options = variant(time, summary);
      auto model = make_variant(options);
      model->eval();
      const ByHand hand(options, *model);
      const torch::NoGradGuard no_grad;
      auto p = model->named_parameters();
      const auto located = model->forward(hits).position;
      for (int64_t b = 0; b < 5; ++b) {
        auto sum = torch::zeros({32}, torch::kFloat64), last = sum;
        double latest = -1, count = 0;
        for (int64_t s = 0; s < 6; ++s) {
          if (!hits.hit[b][s].item<bool>()) continue;
          sum = sum + hand.encoded[b][s];
          ++count;
          const double t = hits.times[b][s].item<double>();
          if (t > latest) last = hand.encoded[b][s];
          latest = std::max(latest, t);
        }
        const auto expected = summary == EventSummary::kLast  ? last
                              : summary == EventSummary::kSum ? sum
                                                              : sum / count;
        EXPECT_TRUE(
            near(located[b],
                 torch::mv(p["output.weight"], expected) + p["output.bias"],
                 kVariantSums))
            << config::name_of(time) << " " << config::name_of(summary);
      }
    }
  }
}

TEST(ModelsEventVariants, AQueryAttendsToTheHitsAlone) {
  auto options = variant(TimeEncoding::kLinear, EventSummary::kQuery);
  auto model = make_variant(options);
  model->eval();
  const ByHand hand(options, *model);
  const auto hits = small_hits();
  auto p = model->named_parameters();
  std::vector<Tensor> seen;
  model->observe([&](int64_t layer, const Tensor& weights) {
    EXPECT_EQ(layer, 0);
    seen.push_back(weights);
  });
  const torch::NoGradGuard no_grad;
  const auto located = model->forward(hits).position;
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_TRUE(
      torch::equal(seen[0] > 0, hits.hit.unsqueeze(1).expand({5, 4, 6})));
  EXPECT_TRUE(near(seen[0].sum(2), torch::ones({5, 4}), testing::kFloat64));
  const auto w = [&](const std::string& name) {
    return p["decoder.layer0." + name];
  };
  const auto normed = [&](const Tensor& x, const std::string& name) {
    const auto gap = x - x.mean();
    return gap / torch::sqrt(gap.square().mean() + 1e-5) * w(name + ".weight") +
           w(name + ".bias");
  };
  for (int64_t b = 0; b < 5; ++b) {
    const auto query = p["decoder.query"];
    const auto q = torch::mv(w("qkv.weight").slice(0, 0, 32), query) +
                   w("qkv.bias").slice(0, 0, 32);
    auto mixed = torch::zeros({32}, torch::kFloat64);
    for (int64_t h = 0; h < 4; ++h) {
      double total = 0;
      auto sum = torch::zeros({8}, torch::kFloat64);
      for (int64_t s = 0; s < 6; ++s) {
        if (!hits.hit[b][s].item<bool>()) continue;
        const auto kv =
            torch::mv(w("qkv.weight").slice(0, 32), hand.encoded[b][s]) +
            w("qkv.bias").slice(0, 32);
        const double score = torch::dot(q.slice(0, 8 * h, 8 * h + 8),
                                        kv.slice(0, 8 * h, 8 * h + 8))
                                 .item<double>() /
                             std::sqrt(8.0);
        total += std::exp(score);
        sum = sum + std::exp(score) * kv.slice(0, 32 + 8 * h, 40 + 8 * h);
      }
      mixed.slice(0, 8 * h, 8 * h + 8).copy_(sum / total);
    }
    const auto y =
        normed(query + torch::mv(w("output.weight"), mixed) + w("output.bias"),
               "norm1");
    const auto inner =
        torch::relu(torch::mv(w("linear1.weight"), y) + w("linear1.bias"));
    const auto answer = normed(
        y + torch::mv(w("linear2.weight"), inner) + w("linear2.bias"), "norm2");
    EXPECT_TRUE(near(located[b],
                     torch::mv(p["output.weight"], answer) + p["output.bias"],
                     kVariantSums));
  }
}

TEST(ModelsEventVariants, FusedAndPlainPathsDropAndAnswerTheSame) {
  // Gradients choose the fused layers, in training with dropout.
  for (const auto time : kTimes) {
    for (const auto summary : kOfHits) {
      auto fused = make_variant(variant(time, summary, true)),
           plain = make_variant(variant(time, summary, true));
      const auto by_fused = fused->forward(small_hits()).position;
      const torch::NoGradGuard no_grad;
      EXPECT_TRUE(near(by_fused.detach(), plain->forward(small_hits()).position,
                       kVariantSums))
          << config::name_of(time) << " " << config::name_of(summary);
    }
  }
}

TEST(ModelsEventVariants, GradientsAreThoseOfDifferences) {
  const auto truth = random({5, 3}, "truth");
  for (const auto time : kTimes) {
    for (const auto summary : kOfHits) {
      auto options = variant(time, summary, true);
      options.dropout = 0;
      options.width = 8, options.heads = 2, options.feed_forward = 8;
      auto model = make_variant(options);
      auto hits = small_hits();
      const auto loss = [&] {
        return (model->forward(hits).position - truth).square().mean();
      };
      EXPECT_TRUE(gradient_is_right(
          [&](const Tensor& times) {
            hits.times = times;
            return loss();
          },
          hits.times.clone(), {1e-5, 1e-7}))
          << config::name_of(time) << " " << config::name_of(summary);
      hits = small_hits();
      model->zero_grad();
      loss().backward();
      for (auto& item : model->named_parameters()) {
        auto& p = item.value();
        const auto direction = random(p.sizes(), "direction");
        ASSERT_TRUE(p.grad().defined()) << item.key();
        const double slope = (p.grad() * direction).sum().item<double>();
        constexpr double kStep = 1e-6;
        const torch::NoGradGuard no_grad;
        p.add_(direction, kStep);
        const double above = loss().item<double>();
        p.sub_(direction, 2 * kStep);
        const double below = loss().item<double>();
        p.add_(direction, kStep);
        EXPECT_NEAR((above - below) / (2 * kStep), slope,
                    1e-6 + 1e-5 * std::abs(slope))
            << item.key() << " " << config::name_of(summary);
      }
    }
  }
}

TEST(ModelsEventVariants, OrderOfSensorsDoesNotMatterWithTheirVectors) {
  const auto order = torch::tensor({4, 2, 0, 5, 1, 3});
  for (const auto summary :
       {EventSummary::kToken, EventSummary::kMean, EventSummary::kSum,
        EventSummary::kLast, EventSummary::kQuery}) {
    const auto options = variant(TimeEncoding::kSinusoidal, summary, true);
    auto model = make_variant(options), other = make_variant(options);
    model->eval(), other->eval();
    const torch::NoGradGuard no_grad;
    auto table = other->named_parameters()["embedding.weight"];
    const int64_t first = summary == EventSummary::kToken ? 1 : 0;
    table.slice(0, first).copy_(table.slice(0, first).index_select(0, order));
    EXPECT_TRUE(
        near(other->forward(testing::reordered(small_hits(), order)).position,
             model->forward(small_hits()).position, kVariantSums))
        << config::name_of(summary);
  }
}

TEST(ModelsEventVariants, SensorsThatWereNotHitSayNothing) {
  for (const auto time : kTimes) {
    for (const auto summary : kOfHits) {
      const auto options = variant(time, summary);
      auto model = make_variant(options), same = make_variant(options);
      EXPECT_TRUE(torch::equal(
          model->forward(small_hits()).position,
          same->forward(testing::with_other_times_unhit(small_hits()))
              .position));
    }
  }
}

TEST(ModelsEventVariants, AnEventWithoutAHitHasAnAnswerAndAGradient) {
  for (const auto summary : kOfHits) {
    auto model = make_variant(variant(TimeEncoding::kLinear, summary));
    auto hits = small_hits();
    hits.hit[2].fill_(false);
    hits.times = hits.times * hits.hit;
    const auto located = model->forward(hits).position;
    EXPECT_TRUE(located.isfinite().all().item<bool>());
    if (summary != EventSummary::kQuery) {
      EXPECT_TRUE(near(located[2].detach(),
                       model->named_parameters()["output.bias"].detach(),
                       testing::kFloat64));
    }
    located.sum().backward();
    for (const auto& p : model->parameters()) {
      if (!p.grad().defined()) continue;
      EXPECT_TRUE(p.grad().isfinite().all().item<bool>());
    }
  }
}

TEST(ModelsEventVariants, ParametersAreCounted) {
  const auto count = [](TimeEncoding time, EventSummary summary) {
    return nn::parameter_count(*variant(time, summary).make(DetectorShape{}));
  };
  using enum TimeEncoding;
  using enum EventSummary;
  const int64_t lecture = 17'539;
  EXPECT_EQ(count(kLinear, kToken), lecture);
  EXPECT_EQ(count(kSinusoidal, kToken), lecture - 64);
  EXPECT_EQ(count(kNetwork, kToken), lecture - 64 + 64 + 33 * 32);
  for (const auto summary : {kMean, kSum, kLast}) {
    EXPECT_EQ(count(kLinear, summary), lecture - 32);
  }
  EXPECT_EQ(count(kLinear, kQuery), lecture - 32 + 32 + 8544);
}

TEST(ModelsEventVariants, SavedWeightsAnswerTheSame) {
  for (const auto summary : kOfHits) {
    const auto options = variant(TimeEncoding::kNetwork, summary);
    auto model = make_variant(options);
    model->forward(small_hits());  // a draw of the dropouts is past
    const auto saved = train::copy_parameters(*model);
    const auto next = model->forward(small_hits()).position;
    auto other = options.make(small_detector());
    other->initialise(9);
    other->to(torch::kFloat64);
    train::set_parameters(*other, saved, "here");
    EXPECT_TRUE(torch::equal(other->forward(small_hits()).position, next));
  }
}

TEST(ModelsEventVariants, RefusesAnOddWidthOfSinesAndTellsUnusedKeys) {
  auto options = variant(TimeEncoding::kSinusoidal, EventSummary::kToken);
  options.width = 5, options.heads = 1;
  EXPECT_NE(thrown<ConfigError>([&] { options.make({}); }).find("got 5"),
            std::string::npos);
  EXPECT_EQ(options.unused_options().size(), 2u);
  EXPECT_EQ(variant(TimeEncoding::kLinear, EventSummary::kQuery)
                .unused_options()
                .size(),
            2u);
}

}  // namespace
}  // namespace propagator::models
