#include "propagator/models/hit_former.h"

#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>
#include <vector>

#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "small_detector.h"

namespace propagator::models {
namespace {

using testing::gradient_is_right;
using testing::near;
using testing::random;
using testing::reordered;
using testing::small_detector;
using testing::small_hits;
using testing::thrown;

// Sums in another order, through a few layers.
constexpr testing::Tolerance kSums{1e-9, 1e-10};

HitFormerOptions small_former(bool unhit) {
  HitFormerOptions options;
  options.unhit = unhit;
  options.width = 8;
  options.heads = 2;
  options.layers = 2;
  options.feed_forward = 12;
  options.frequencies = 2;
  return options;
}

std::shared_ptr<Locator> make(bool unhit, bool event_time_known = true) {
  auto model = small_former(unhit).make(small_detector(event_time_known));
  model->initialise(4);
  model->to(torch::kFloat64);
  return model;
}

// For both kinds of tokens, with the event's time known and not.
void for_kinds(const std::function<void(bool unhit, bool known)>& check) {
  for (const bool unhit : {true, false}) {
    for (const bool known : {true, false}) check(unhit, known);
  }
}

bool same_bits(const Located& a, const Located& b) {
  return torch::equal(a.position, b.position) &&
         torch::equal(a.factor, b.factor);
}

TEST(ModelsHitFormer, DefaultsAreAsStated) {
  // A number, its square and waves of 4 octaves make 10.
  const auto known = HitFormerOptions().make({});
  const int64_t layer = 4 * 64 * 64 + 2 * 64 * 128 + 9 * 64 + 128;
  const int64_t rest = 31 * 64 + 64 * 65 + 64 + 4 * layer + 128 + 9 * 65;
  EXPECT_EQ(nn::parameter_count(*known), rest + 21 * 64 + 10 * 64);
  const auto unknown = HitFormerOptions().make({.event_time_known = false});
  EXPECT_EQ(nn::parameter_count(*unknown), rest + 11 * 64);
}

TEST(ModelsHitFormer, OrderOfSensorsDoesNotMatter) {
  for_kinds([](bool unhit, bool known) {
    auto model = make(unhit, known);
    const auto hits = small_hits();
    const auto other =
        model->forward(reordered(hits, torch::tensor({4, 2, 0, 5, 1, 3})));
    const auto one = model->forward(hits);
    EXPECT_TRUE(near(other.position, one.position, kSums));
    EXPECT_TRUE(near(other.factor, one.factor, kSums));
  });
}

TEST(ModelsHitFormer, ShiftOfAllTimesMattersOnlyIfTheEventsTimeIsKnown) {
  for_kinds([](bool unhit, bool known) {
    auto model = make(unhit, known);
    auto hits = small_hits();
    const auto one = model->forward(hits);
    // Exact in binary, and so the times' differences are the same numbers.
    hits.times = (hits.times + 64) * hits.hit;
    EXPECT_EQ(same_bits(model->forward(hits), one), !known);
  });
}

TEST(ModelsHitFormer, TimesOfSensorsThatWereNotHitAreNotRead) {
  for_kinds([](bool unhit, bool known) {
    auto model = make(unhit, known);
    const auto hits = small_hits();
    EXPECT_TRUE(same_bits(model->forward(testing::with_other_times_unhit(hits)),
                          model->forward(hits)));
  });
}

TEST(ModelsHitFormer, SensorsThatWereNotHitCountIfAsked) {
  // Events 1 and 3 alone, and with sensors beside that saw none of them.
  const auto all = small_hits();
  const auto rows = torch::tensor({1, 3});
  const Hits hits{all.times.index_select(0, rows),
                  all.hit.index_select(0, rows), all.positions};
  const Hits more{
      torch::cat({torch::zeros({2, 2}, torch::kFloat64), hits.times}, 1),
      torch::cat({torch::zeros({2, 2}, torch::kBool), hits.hit}, 1),
      torch::cat({random({2, 3}, "far"), hits.positions}, 0)};
  for_kinds([&](bool unhit, bool known) {
    auto model = make(unhit, known);
    const auto one = model->forward(hits), two = model->forward(more);
    EXPECT_EQ(static_cast<bool>(near(one.position, two.position, kSums)),
              !unhit);
  });
}

TEST(ModelsHitFormer, EventsDoNotDependOnTheirBatch) {
  // Fuller events beside it pad an event with more tokens.
  for_kinds([](bool unhit, bool known) {
    auto model = make(unhit, known);
    const auto hits = small_hits();
    const auto all = model->forward(hits);
    for (int64_t b = 0; b < 5; ++b) {
      const auto one =
          model->forward({hits.times.narrow(0, b, 1), hits.hit.narrow(0, b, 1),
                          hits.positions});
      EXPECT_TRUE(near(one.position[0], all.position[b], kSums));
      EXPECT_TRUE(near(one.factor[0], all.factor[b], kSums));
    }
  });
}

TEST(ModelsHitFormer, AnEventWithoutAHitHasAnAnswer) {
  for_kinds([](bool unhit, bool known) {
    auto model = make(unhit, known);
    auto hits = small_hits();
    hits.hit = torch::zeros_like(hits.hit);
    const auto located = model->forward(hits);
    EXPECT_TRUE(located.position.isfinite().all().item<bool>());
    EXPECT_TRUE(near(located.position[0], located.position[1], kSums));
  });
}

TEST(ModelsHitFormer, FactorIsLowerTriangularAndPositive) {
  auto model = make(true);
  {
    // Far out, where softplus vanishes, only the floor is left: 10⁻⁵ of 10 m.
    const torch::NoGradGuard no_grad;
    model->named_parameters()["output.bias"][4] = -500;
  }
  const auto l = model->forward(small_hits()).factor;
  EXPECT_TRUE(torch::equal(l, l.tril()));
  EXPECT_TRUE((l.diagonal(0, 1, 2) > 0).all().item<bool>());
  EXPECT_TRUE(near(l.select(1, 1).select(1, 1),
                   torch::full({5}, 1e-4, torch::kFloat64), {1e-12, 0}));
}

TEST(ModelsHitFormer, LikelihoodHasTheGradientOfDifferences) {
  for_kinds([](bool unhit, bool known) {
    auto model = make(unhit, known);
    const auto hits = small_hits();
    const auto truth = 4 * random({5, 3}, "truth");
    const auto loss = [&](const Hits& h) {
      return gaussian_nll(model->forward(h), truth);
    };
    // By the times where there was a hit, and by the places of the sensors.
    EXPECT_TRUE(gradient_is_right(
        [&](const torch::Tensor& times) {
          return loss({times, hits.hit, hits.positions});
        },
        hits.times));
    EXPECT_TRUE(gradient_is_right(
        [&](const torch::Tensor& positions) {
          return loss({hits.times, hits.hit, positions});
        },
        hits.positions));
    // By the weights, along a direction.
    model->zero_grad();
    loss(hits).backward();
    const torch::NoGradGuard no_grad;
    for (auto& item : model->named_parameters()) {
      auto& p = item.value();
      const auto direction = random(p.sizes(), "direction");
      const double slope = (p.grad() * direction).sum().item<double>();
      constexpr double kStep = 1e-6;
      p.add_(direction, kStep);
      const double above = loss(hits).item<double>();
      p.sub_(direction, 2 * kStep);
      const double below = loss(hits).item<double>();
      p.add_(direction, kStep);
      EXPECT_NEAR((above - below) / (2 * kStep), slope,
                  1e-7 + 1e-6 * std::abs(slope))
          << item.key();
    }
  });
}

TEST(ModelsHitFormer, LearnsAFewEvents) {
  auto model = make(true);
  const auto hits = small_hits();
  const auto truth = 4 * random({5, 3}, "truth");
  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(1e-2));
  const auto error = [&](const Located& located) {
    return (located.position - truth).square().mean().sqrt().item<double>();
  };
  const auto start = model->forward(hits);
  const double before = gaussian_nll(start, truth).item<double>();
  for (int step = 0; step < 150; ++step) {
    adam.zero_grad();
    gaussian_nll(model->forward(hits), truth).backward();
    adam.step();
  }
  const auto located = model->forward(hits);
  EXPECT_LT(gaussian_nll(located, truth).item<double>(), before - 4);
  EXPECT_LT(error(located), 0.3 * error(start));
}

TEST(ModelsHitFormer, ObserverSeesEachSensorsWeight) {
  const auto order = torch::tensor({4, 2, 0, 5, 1, 3});
  for (const bool unhit : {true, false}) {
    auto model = make(unhit);
    std::vector<torch::Tensor> seen;
    model->observe([&](int64_t layer, const torch::Tensor& weights) {
      EXPECT_EQ(layer, static_cast<int64_t>(seen.size()) % 2);
      seen.push_back(weights);
    });
    const auto hits = small_hits();
    model->forward(hits);
    model->forward(reordered(hits, order));
    ASSERT_EQ(seen.size(), 4u);
    for (size_t n = 0; n < 2; ++n) {
      EXPECT_EQ(seen[n].sizes().vec(), (std::vector<int64_t>{5, 2, 6}));
      EXPECT_TRUE((seen[n].sum(2) < 1).all().item<bool>());
      const auto hit = hits.hit.unsqueeze(1).expand_as(seen[n]);
      EXPECT_TRUE(
          torch::equal(seen[n] > 0, unhit ? torch::ones_like(hit) : hit));
      EXPECT_TRUE(near(seen[n + 2], seen[n].index_select(2, order), kSums));
    }
  }
}

TEST(ModelsHitFormer, RefusesWhatDoesNotFit) {
  HitFormerOptions options;
  options.heads = 5;
  EXPECT_NE(thrown<ConfigError>([&] { options.make({}); }).find("got 5"),
            std::string::npos);
  EXPECT_EQ(thrown<UsageError>([] {
              HitFormerOptions().make({.size = 0});
            }).find("[hit_former] expected a detector"),
            0u);
}

}  // namespace
}  // namespace propagator::models
