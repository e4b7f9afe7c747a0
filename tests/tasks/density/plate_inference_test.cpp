#include "propagator/tasks/density/plate_inference.h"

#include <torch/utils.h>

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/tasks/density/density.h"
#include "propagator/tasks/density/inference_maths.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::kDouble;
using testing::near;
using testing::thrown;
using torch::Tensor;

// Frames that say something of both unknowns, of few nodes.
PlateInferenceOptions small() {
  return {.rows = 5, .cols = 6, .frames = 2, .interval = 0.4, .noise = 0.2};
}

Tensor row(double alpha, double initial) {
  return torch::tensor({{alpha, initial}}, torch::kFloat64);
}

// In sine modes every step multiplies what is left of the steady state by
// 1 - α dt (λx + λy): the same scheme, without a step.
Tensor by_sine_modes(const PlateInferenceOptions& o, double alpha,
                     double initial) {
  const physics::HeatPlateOptions plate{.rows = o.rows, .cols = o.cols};
  auto first = torch::full({1, o.rows, o.cols}, initial, torch::kFloat64);
  first.select(2, 0).fill_(o.left);
  first.select(2, -1).fill_(o.right);
  first.select(1, 0).fill_(o.top);
  first.select(1, -1).fill_(o.bottom);
  const auto inner = [](const Tensor& x) {
    return x.slice(1, 1, -1).slice(2, 1, -1)[0];
  };
  const auto steady = inner(physics::steady_state(plate, first));
  const auto modes = [](int64_t n, double spacing) {
    const auto k = torch::arange(1, n + 1, torch::kFloat64);
    const double angle = std::numbers::pi / static_cast<double>(n + 1);
    return std::pair(torch::sin(torch::outer(k, k) * angle) *
                         std::sqrt(2.0 / static_cast<double>(n + 1)),
                     (2 - 2 * torch::cos(k * angle)) / (spacing * spacing));
  };
  const auto [sy, ly] = modes(o.rows - 2, plate.dy());
  const auto [sx, lx] = modes(o.cols - 2, plate.dx());
  // Steps are half of the largest stable one, or a little less.
  const double steps =
      std::ceil(o.interval / (0.5 * plate.largest_step(o.alpha_max)));
  const auto decay =
      1 - alpha * o.interval / steps * (ly.unsqueeze(1) + lx.unsqueeze(0));
  const auto left = torch::matmul(torch::matmul(sy, inner(first) - steady), sx);
  std::vector<Tensor> frames;
  for (int64_t f = 1; f <= o.frames; ++f) {
    const auto now = left * decay.pow(steps * static_cast<double>(f));
    frames.push_back(
        (steady + torch::matmul(torch::matmul(sy, now), sx)).flatten());
  }
  return torch::cat(frames);
}

TEST(TasksPlateInference, FramesAreThoseOfTheSchemeInSineModes) {
  const PlateInference inference(small());
  for (const auto& [alpha, initial] : {std::pair(0.013, 0.9), {0.099, 0.2}}) {
    EXPECT_TRUE(near(inference.frames_of(row(alpha, initial))[0],
                     by_sine_modes(small(), alpha, initial),
                     testing::kFloat64));
  }
}

// ∫ x³ + x over [1, 3] is 20 + 4, exactly.
TEST(TasksPlateInference, WeightsAreThoseOfSimpson) {
  const auto x = torch::linspace(1, 3, 7, torch::kFloat64);
  EXPECT_NEAR((simpson_weights(x) * (x.pow(3) + x)).sum().item<double>(), 24,
              1e-12);
}

// The integral over both unknowns, brute force, of the density that the
// simulator gives with whole frames; some posteriors lean on an edge.
TEST(TasksPlateInference, EvidenceIsTheIntegralOfTheJointDensity) {
  const PlateInference inference(small());
  const auto truths =
      torch::cat({row(0.05, 0.5), row(0.0105, 0.02), row(0.0995, 0.99)});
  const auto noise = RandomStream(1, "noise").normal({3, 24});
  const auto observed = inference.frames_of(truths) + 0.2 * noise;
  const auto evidence = *inference.log_evidence(observed);
  constexpr int64_t kCells = 200;
  const auto middles =
      (torch::arange(kCells, torch::kFloat64) + 0.5) / double{kCells};
  const auto mesh = torch::meshgrid({0.01 + 0.09 * middles, middles}, "ij");
  const auto cells = torch::stack({mesh[0].flatten(), mesh[1].flatten()}, 1);
  for (int64_t n = 0; n < 3; ++n) {
    const auto seen = observed.narrow(0, n, 1).expand({kCells * kCells, 24});
    const double sum =
        torch::logsumexp(inference.log_joint(cells, seen), 0).item<double>() +
        std::log(0.09 / (kCells * kCells));
    EXPECT_NEAR(evidence[n].item<double>(), sum, 2e-4) << n;
  }
}

// Late frames keep nothing of the temperature at the start; the integral over
// it is that of the prior.
TEST(TasksPlateInference, EvidenceIsFiniteWhereNothingIsLeftOfTheStart) {
  auto options = small();
  options.interval = 300;
  const PlateInference inference(options);
  const auto observed = inference.frames_of(row(0.05, 0.5));
  const double evidence = inference.log_evidence(observed)->item<double>();
  // Every diffusivity has reached the same frames by then.
  const double expected = -24 * std::log(0.2 * std::sqrt(2 * std::numbers::pi));
  EXPECT_NEAR(evidence, expected, 1e-3);
}

TEST(TasksPlateInference, TheEstimateIsTheHighestOfTheLikelihood) {
  const PlateInference inference(small());
  const auto pairs = inference.draw(1, 0, 200);
  const auto best = inference.estimate(pairs.observed);
  const auto at_best = inference.log_joint(best, pairs.observed);
  const auto at_truth = inference.log_joint(pairs.unknown, pairs.observed);
  // Away from the edges, which it keeps off a little.
  const auto share =
      torch::stack({(best.select(1, 0) - 0.01) / 0.09, best.select(1, 1)}, 1);
  const auto inner = ((share > 0.011) & (share < 0.989)).all(1);
  EXPECT_GT(inner.sum().item<int64_t>(), 50);
  EXPECT_TRUE(((at_best >= at_truth - 1e-3) | ~inner).all().item<bool>());
  for (const double alpha : {-0.001, 0.001}) {
    for (const double initial : {-0.02, 0.02}) {
      const auto by = best + torch::tensor({alpha, initial}, torch::kFloat64);
      EXPECT_TRUE(
          ((at_best >= inference.log_joint(by, pairs.observed) - 1e-4) | ~inner)
              .all()
              .item<bool>());
    }
  }
}

TEST(TasksPlateInference, OutsideThePriorNothingIs) {
  const PlateInference inference(small());
  const auto observed = inference.draw(1, 0, 1).observed;
  for (const auto& at : {row(0.2, 0.5), row(0.009, 0.5), row(0.05, 1.01)}) {
    EXPECT_TRUE(std::isinf(inference.log_joint(at, observed).item<double>()));
  }
}

TEST(TasksPlateInference, PairsAreThoseOfTheEnsemble) {
  const PlateInference inference(small());
  const auto all = inference.draw(1, 0, 10), some = inference.draw(1, 4, 3);
  EXPECT_TRUE(torch::equal(all.unknown.slice(0, 4, 7), some.unknown));
  EXPECT_TRUE(torch::equal(all.observed.slice(0, 4, 7), some.observed));
  EXPECT_EQ(all.observed.size(1), std::ssize(inference.observed()));
  EXPECT_FALSE(torch::equal(inference.draw(2, 0, 10).unknown, all.unknown));
  // The noise is as wide as it is said to be, of 24 x 500 readings.
  const auto many = inference.draw(3, 0, 500);
  const auto noise = many.observed - inference.frames_of(many.unknown);
  EXPECT_NEAR(noise.std().item<double>(), 0.2, 5 * 0.2 / std::sqrt(24000.));
  EXPECT_NEAR(noise.mean().item<double>(), 0, 5 * 0.2 / std::sqrt(12000.));
}

run::Experiment experiment_of(const std::string& keys) {
  return run::Experiment(config::Document::from_text(
      "task: density\nprecision: fp64\n"
      "data: {samples: 500, validation: 50}\n"
      "eval: {samples: 400, draws: 40, two_sample: 150}\n"
      "model: {name: maf, flows: 1, width: 8}\n" +
          keys,
      "test"));
}

TEST(TasksPlateInference, APosteriorIsTestedWhole) {
  const auto e = experiment_of(
      "inference: {name: plate, plate: {rows: 5, cols: 5, noise: 0.3}}\n");
  e.task().prepare(0, kDouble);
  const auto model = e.make_model(kDouble);
  e.task().calibrate(*model);
  const auto found = e.task().evaluate(*model, data::Split::kTest).numbers;
  // Before training: one width about the classical answer, whatever is seen.
  EXPECT_GT(found.at("gap").get<double>(), 0.02);
  EXPECT_LT(found.at("gap").get<double>(), 3);
  EXPECT_GT(found.at("coverage").at("90 %").get<double>(), 0.7);
  EXPECT_EQ(found.at("rank_histogram").at("alpha").size(), 20u);
  EXPECT_FALSE(found.contains("samples_that_count"));
  // Errors are shares of the prior's widths.
  EXPECT_LT(found.at("median_error").at("classical").get<double>(), 0.4);
  const auto surrogate = e.task().surrogate(model, kDouble);
  EXPECT_EQ(surrogate->inputs().size(), 2u + 5u * 9u);
  // Samples are where the prior is.
  auto& task = dynamic_cast<DensityTask&>(e.task());
  NamedTensors seen;
  for (const auto& name : task.given_columns()) {
    seen[name] = torch::full({50}, 2., torch::kFloat64);
  }
  const auto drawn =
      task.generate(*model, seen, 50, RandomStream(1, "draws"), kDouble);
  EXPECT_GT(drawn.at("alpha").min().item<double>(), 0.01);
  EXPECT_LT(drawn.at("alpha").max().item<double>(), 0.1);
  EXPECT_GT(drawn.at("initial").min().item<double>(), 0);
  EXPECT_LT(drawn.at("initial").max().item<double>(), 1);
}

TEST(TasksPlateInference, SaysWhatCannotBeAsked) {
  const auto said = [](const std::string& keys) {
    return thrown<ConfigError>(
        [&] { experiment_of("inference: {" + keys + "}\n"); });
  };
  const auto has = [](const std::string& text, const char* words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  has(said("name: palte"), "vertex | plate | wake");
  has(said("name: plate, plate: {alpha_min: 0.2}"), "expected more than 0.2");
  has(said("name: plate, plate: {initial_max: -1}"), "expected more than 0");
  has(said("name: plate, plate: {initial_min: 0.9999}"), "too close");
  has(said("name: plate, plate: {noise: 0}"), "inference.plate.noise");
  has(said("name: plate, plate: {noise: -1}"), "inference.plate.noise");
  has(said("name: plate, plate: {frames: 0}"), "inference.plate.frames");
  has(said("name: plate, plate: {interval: 1e5}"), "too many steps");
  has(said("name: plate, plate: {nois: 1}"), "unknown key");
}

}  // namespace
}  // namespace propagator::tasks
