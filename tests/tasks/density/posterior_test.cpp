#include "propagator/tasks/density/posterior_test.h"

#include <torch/utils.h>

#include <cmath>
#include <map>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/core/observer.h"
#include "propagator/tasks/calibration.h"
#include "propagator/tasks/density/two_sample.h"
#include "propagator/tasks/density/vertex_inference.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::kDouble;
using testing::thrown;
using torch::Tensor;

Tensor normal(int64_t rows, int64_t columns, const char* name) {
  return RandomStream(1, name).normal({rows, columns});
}

// x = given + width · a normal number, with a density that knows it or is too
// sure of itself.
class NormalDensity : public models::Density {
 public:
  explicit NormalDensity(double width)
      : Density({.variables = 2, .given = 2}), width_(width) {
    to(torch::kFloat64);
  }

 protected:
  Tensor scaled_log_prob(const Tensor& x, const Tensor& given) override {
    return models::normal_log_prob((x - given) / width_) - 2 * std::log(width_);
  }
  Tensor scaled_sample(const Tensor& given,
                       const RandomStream& stream) override {
    return given + width_ * stream.normal({given.size(0), 2});
  }

 private:
  double width_;
};

PosteriorTest judge(double width) {
  NormalDensity model(width);
  const auto given = normal(2000, 2, "given");
  const auto x = given + normal(2000, 2, "noise");
  return test_posteriors(model, x, given, {.draws = 200, .batch = 5000}, 3,
                         kDouble);
}

TEST(TasksPosterior, ARightOneCoversAsOftenAsItSays) {
  const auto test = judge(1);
  for (const double share : {0.5, 0.9, 0.95}) {
    // Five standard deviations of 2000 truths.
    EXPECT_NEAR(share_within(test.regions, share), share,
                5 * std::sqrt(share * (1 - share) / 2000));
    EXPECT_NEAR(share_within(test.ranks.select(1, 0), share), share,
                5 * std::sqrt(share * (1 - share) / 2000));
  }
  EXPECT_LT(CoverageCurve::of_regions(test.regions).error(), 0.02);
}

// Of a normal number in the plane, r²/2 is exponential: the region that should
// hold p reaches to r² = -2 log(1 - p), and half as wide it holds 1 - (1-p)^¼.
TEST(TasksPosterior, OneThatIsTooSureCoversLess) {
  const auto test = judge(0.5);
  EXPECT_NEAR(share_within(test.regions, 0.9), 1 - std::pow(0.1, 0.25), 0.05);
}

TEST(TasksPosterior, ItsModeIsWhereItIsDensest) {
  NormalDensity model(1);
  const auto given = normal(50, 2, "given");
  const auto test = test_posteriors(model, given, given,
                                    {.draws = 50, .batch = 1000}, 3, kDouble);
  EXPECT_LT((test.modes - given).abs().max().item<double>(), 0.02);
}

// With p(x) of a broad normal distribution and p(observed | x) normal, the
// posterior is known: mean observed · s², variance 1 / (1 + 1/s²), here 0.8.
class NormalInference : public Inference {
 public:
  std::vector<std::string> unknowns() const override { return {"x", "y"}; }
  std::vector<std::string> observed() const override { return {"a", "b"}; }
  std::string describe() const override { return "normal"; }
  Pairs draw(int64_t seed, int64_t begin, int64_t count) const override {
    const RandomStream stream(seed, "pairs");
    const auto all = stream.normal({begin + count, 4}).slice(0, begin);
    const auto x = 2 * all.narrow(1, 0, 2);
    return {x, x + all.narrow(1, 2, 2)};
  }
  Tensor estimate(const Tensor& observed) const override { return observed; }
  std::string name_of_estimate() const override { return "observed"; }
  Tensor log_joint(const Tensor& unknown,
                   const Tensor& observed) const override {
    return models::normal_log_prob(unknown / 2) +
           models::normal_log_prob(observed - unknown);
  }
};

TEST(TasksPosterior, TheExactOneIsFoundFromSamplesOfAnother) {
  NormalDensity model(1);  // about what is observed: near, but not right
  const NormalInference inference;
  const auto pairs = inference.draw(1, 0, 20);
  const auto exact = exact_posterior(
      model, inference, pairs.unknown, pairs.observed, pairs.observed,
      {.draws = 20000, .batch = 100000}, 1, kDouble);
  const double width = std::sqrt(0.8);
  const auto expected =
      models::normal_log_prob((pairs.unknown - 0.8 * pairs.observed) / width) -
      2 * std::log(width);
  EXPECT_LT((exact.log_prob - expected).abs().max().item<double>(), 0.1);
  EXPECT_GT(exact.share.min().item<double>(), 0.05);
  EXPECT_LT(exact.share.max().item<double>(), 0.99);
}

// Whoever waits is told how far the work is, to its end.
TEST(TasksPosterior, TellsHowFarItIs) {
  struct Listener : Observer {
    void progress(const Step& step) override {
      last[step.title] = {step.done, step.total};
    }
    std::map<std::string, std::pair<int64_t, int64_t>> last;
  } listener;
  const ObserverScope scope(listener);
  NormalDensity model(1);
  const auto given = normal(30, 2, "given");
  const PosteriorTestOptions options{.draws = 10, .batch = 100};
  test_posteriors(model, given, given, options, 3, kDouble);
  const std::pair<int64_t, int64_t> all{30, 30};
  EXPECT_EQ(listener.last.at("posteriors"), all);
  EXPECT_EQ(listener.last.at("modes"), all);
  exact_posterior(model, NormalInference(), given, given, given, options, 3,
                  kDouble);
  EXPECT_EQ(listener.last.at("exact posteriors"), all);
}

TEST(TasksPosterior, FindsModesOnlyWhereAsked) {
  NormalDensity model(1);
  const auto given = normal(30, 2, "given");
  const auto with =
      test_posteriors(model, given, given, {.draws = 10}, 3, kDouble);
  const auto without = test_posteriors(
      model, given, given, {.draws = 10, .modes = false}, 3, kDouble);
  EXPECT_FALSE(without.modes.defined());
  EXPECT_TRUE(torch::equal(with.ranks, without.ranks));
  EXPECT_TRUE(torch::equal(with.regions, without.regions));
}

TEST(TasksTwoSample, TellsWhatDiffersAndNothingElse) {
  const auto a = normal(2000, 2, "a"), b = normal(2000, 2, "b");
  const auto same = tell_apart(a, b, 1);
  EXPECT_NEAR(same.accuracy, 0.5, 5 * same.error);
  // Means 2 apart: the best any rule can do is Φ(1).
  const auto apart =
      tell_apart(a, b + torch::tensor({2., 0.}, torch::kFloat64), 1);
  const double best = 0.5 * std::erfc(-1 / std::numbers::sqrt2);
  EXPECT_NEAR(apart.accuracy, best, 5 * apart.error);
  EXPECT_EQ(tell_apart(a, b, 1).accuracy, same.accuracy);
}

physics::DetectorOptions corners() { return {.jitter = 1}; }

TEST(TasksVertexInference, TheJointDensityIsHighestAtItsEstimate) {
  const VertexInference inference(corners());
  const auto pairs = inference.draw(1, 0, 50);
  EXPECT_EQ(pairs.observed.size(1), std::ssize(inference.observed()));
  const auto best = inference.estimate(pairs.observed);
  const auto at_best = inference.log_joint(best, pairs.observed);
  const auto at_truth = inference.log_joint(pairs.unknown, pairs.observed);
  EXPECT_TRUE((at_best >= at_truth - 1e-9).all().item<bool>());
  EXPECT_LT((best - pairs.unknown).norm(2, {1}).median().item<double>(), 1);
  const auto outside = torch::full({50, 3}, 5.1, torch::kFloat64);
  EXPECT_TRUE(torch::isinf(inference.log_joint(outside, pairs.observed))
                  .all()
                  .item<bool>());
}

TEST(TasksVertexInference, PairsAreThoseOfTheEnsemble) {
  const VertexInference inference(corners());
  const auto all = inference.draw(1, 0, 10), some = inference.draw(1, 4, 3);
  EXPECT_TRUE(torch::equal(all.unknown.slice(0, 4, 7), some.unknown));
  EXPECT_TRUE(torch::equal(all.observed.slice(0, 4, 7), some.observed));
}

TEST(TasksVertexInference, SaysWhatCannotBeAsked) {
  const auto said = [](auto change) {
    auto options = corners();
    change(options);
    return thrown<ConfigError>([&] { VertexInference inference(options); });
  };
  EXPECT_NE(said([](auto& o) { o.jitter = 0; }).find("no distribution"),
            std::string::npos);
  EXPECT_NE(said([](auto& o) {
              o.event_time = physics::EventTime::kUnknown;
            }).find("must be known"),
            std::string::npos);
  const VertexInference inference(corners());
  auto observed = inference.draw(1, 0, 2).observed;
  observed[0][0] = 0.5;
  EXPECT_NE(thrown<DataError>([&] {
              inference.estimate(observed);
            }).find("a hit is 0 or 1"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::tasks
