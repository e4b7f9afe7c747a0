#include "propagator/tasks/forecast/spread.h"

#include <torch/utils.h>

#include <algorithm>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/data/tensor_file.h"
#include "propagator/models/heat_former.h"
#include "propagator/tasks/forecast/forecast.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using propagator::testing::kDouble;
using propagator::testing::near;
using propagator::testing::prepared_model;
using propagator::testing::TemporaryFolder;
using propagator::testing::thrown;

constexpr const char* kBands = R"(
task: forecast
precision: fp64
device: cpu
plate: {rows: 6, cols: 5, frames: 10}
data: {cases: 60}
model: {visible: 3, width: 16, layers: 1, heads: 2, feed_forward: 8}
loss: {frames: heteroscedastic}
train: {batch: 4, checkpoint_every: 3, max_steps: 6, validate_every: 3}
)";

run::Experiment bands(const std::vector<std::string>& overrides = {}) {
  auto document = config::Document::from_text(kBands, "bands.yaml");
  for (const auto& text : overrides) document.override_with(text);
  return run::Experiment(document);
}

Forecast& forecast_of(const run::Experiment& experiment) {
  return dynamic_cast<Forecast&>(experiment.task());
}

torch::Tensor normals(torch::IntArrayRef shape, const std::string& name) {
  return RandomStream(7, name).normal(shape);
}

// Histories of 0.5 with noise of deviation 0.1 in every node, in a file.
std::string noisy_file(const TemporaryFolder& folder) {
  const auto path = (folder / "noise.h5").string();
  data::save_tensors(
      path, {{{"fields", 0.5 + 0.1 * normals({400, 10, 6, 5}, "noise")}}, ""});
  return "data.file=" + path;
}

// Says 0.5 and this deviation, whatever it is given.
class Steady : public models::Forecaster {
 public:
  Steady(double deviation, bool autoregressive)
      : deviation_(deviation), autoregressive_(autoregressive) {}
  torch::Tensor forward(const torch::Tensor& frames,
                        const torch::Tensor&) override {
    return torch::full({frames.size(0), 10, 6, 5}, 0.5, frames.options());
  }
  torch::Tensor predict(const torch::Tensor& first, const torch::Tensor& alpha,
                        const std::function<void(int64_t)>&) override {
    auto frames = forward(first, alpha);
    frames.narrow(1, 0, 3).copy_(first);
    return frames;
  }
  bool predicts_variance() const override { return true; }
  models::FrameSpread spread(const torch::Tensor& frames,
                             const torch::Tensor& alpha) override {
    const auto mean = forward(frames, alpha);
    return {mean, torch::full_like(mean, deviation_)};
  }
  torch::Tensor draw(const torch::Tensor& first, const torch::Tensor& alpha,
                     const FrameNoise& noise,
                     const std::function<void(int64_t)>&) override {
    auto frames = predict(first, alpha, {});
    for (int64_t t = 3; t < 10; ++t) {
      frames.narrow(1, t, 1).add_(deviation_ * noise(t));
    }
    return frames;
  }
  bool uses_alpha() const override { return false; }
  int64_t visible() const override { return 3; }
  bool autoregressive() const override { return autoregressive_; }
  int64_t first_hidden(int64_t) const override { return 3; }

 private:
  double deviation_;
  bool autoregressive_;
};

double inside(double deviations) {
  return std::erf(deviations / std::numbers::sqrt2);
}

// The truth is known in closed form, and so is how often it is inside: without
// a scale as often as deviations of half the size say, with it as predicted.
TEST(TasksForecastSpread, CoverageOfKnownNoiseIsInClosedForm) {
  const TemporaryFolder folder;
  for (const bool autoregressive : {false, true}) {
    const auto e =
        bands({noisy_file(folder), "eval.draws=64", "eval.drawn_cases=0"});
    e.task().prepare(0, kDouble);
    Steady half(0.05, autoregressive);
    const auto spread =
        e.task().evaluate(half, data::Split::kTest).numbers.at("spread");
    const auto at = [&](const char* key, const char* interval) {
      return spread.at(key).at(interval).get<double>();
    };
    EXPECT_EQ(spread.at("cases"), 40);
    for (const auto& [name, reach] : {std::pair{"50", 0.6744897501960817},
                                      {"90", 1.6448536269514722},
                                      {"95", 1.959963984540054}}) {
      // 8400 nodes: half a per cent of deviation, twice that is allowed. The
      // autoregressive model feeds back what it is found to err by.
      EXPECT_NEAR(at("coverage", name), inside(reach), 0.015) << name;
      EXPECT_NEAR(at("coverage_uncalibrated", name),
                  inside(autoregressive ? reach : reach / 2), 0.02)
          << name;
      // Noise of nodes is independent here, so their mean is off by little.
      EXPECT_NEAR(at("coverage_of_mean", name), inside(reach), 0.1) << name;
    }
    EXPECT_EQ(spread.at("coverage_per_frame").at("90").size(), 7u);
    const std::vector<double> scales = spread.at("scale_per_frame");
    for (const double scale : scales) {
      EXPECT_NEAR(scale, autoregressive ? 1 : 2, 0.15);
    }
    EXPECT_NEAR(spread.at("nll").get<double>(),
                std::log(0.1) + 0.5 + 0.9189385332046727, 0.02);
  }
}

TEST(TasksForecastSpread, CalibrationCanBeOneNumberOrNone) {
  const TemporaryFolder folder;
  const auto scales = [&](const std::string& key) -> std::vector<double> {
    const auto e = bands({noisy_file(folder), "eval.calibration=" + key});
    e.task().prepare(0, kDouble);
    Steady half(0.05, false);
    return e.task()
        .evaluate(half, data::Split::kTest)
        .numbers.at("spread")
        .at("scale_per_frame");
  };
  EXPECT_EQ(scales("none"), std::vector<double>(7, 1.0));
  EXPECT_NE(scales("frame")[0], scales("frame")[1]);
  const auto overall = scales("overall");
  EXPECT_EQ(overall, std::vector<double>(7, overall.front()));
  EXPECT_NEAR(overall.front(), 2, 0.05);
  // What was kept serves all of them.
  const auto e = bands();
  const auto model = prepared_model(e);
  const auto kept = forecast_of(e).measure_calibration(*model);
  const auto other = bands({"eval.calibration=overall"});
  other.task().prepare(0, kDouble);
  forecast_of(other).use_calibration(kept);
  const std::vector<double> used = other.task()
                                       .evaluate(*model, data::Split::kTest)
                                       .numbers.at("spread")
                                       .at("scale_per_frame");
  EXPECT_EQ(used, std::vector<double>(7, kept.at("overall").item<double>()));
}

// A network that is shown noise of deviation 0.1 says 0.1.
TEST(TasksForecastSpread, TrainingFindsTheNoiseOfItsData) {
  const TemporaryFolder folder;
  const auto e =
      bands({noisy_file(folder), "train.max_steps=300", "train.batch=16",
             "train.validate_every=300", "schedule.kind=cosine",
             "schedule.lr=0.02", "loss.initial=0"});
  e.task().prepare(0, kDouble);
  const auto model = e.make_model(kDouble);
  e.task().calibrate(*model);
  train::Trainer trainer(e.task(), model, e.train(), 0, kDouble, e.yaml());
  auto run = train::RunDirectory::create(folder / "run", false, "");
  trainer.run(run);
  const auto numbers = e.task().evaluate(*model, data::Split::kTest).numbers;
  EXPECT_NEAR(std::sqrt(numbers.at("mse").get<double>()), 0.1, 0.01);
  for (const double found :
       std::vector<double>(numbers.at("spread").at("deviation_per_frame"))) {
    EXPECT_NEAR(found, 0.1, 0.01);
  }
  EXPECT_NEAR(numbers.at("spread").at("coverage_uncalibrated").at("90"), 0.9,
              0.03);
}

// D + M Mᵀ written out, against determinant and inverse by the small matrix.
TEST(TasksErrorModes, TheLikelihoodIsThatOfTheWholeCovariance) {
  const ErrorModes modes{normals({2, 2, 2, 1}, "modes"),
                         0.5 + normals({2, 2, 1}, "rest").abs()};
  const auto z = normals({9, 2, 2, 1}, "cases");
  const auto columns = modes.modes.flatten(1).t();
  const auto covariance = torch::diag(modes.rest.flatten().square()) +
                          torch::matmul(columns, columns.t());
  const auto x = z.flatten(1);
  const auto squares =
      (torch::matmul(x, torch::linalg_inv(covariance)) * x).sum(1).mean();
  const double expected =
      -0.5 * (squares + torch::logdet(covariance)).item<double>() / 4;
  EXPECT_NEAR(log_likelihood(z, modes), expected, 1e-10);
}

TEST(TasksErrorModes, ACommonErrorIsFoundAndNoneIsInvented) {
  // One pattern, of variance 0.8 of 1, in all frames of a case.
  const auto own = normals({300, 6, 4, 4}, "own");
  const auto pattern = torch::ones({1, 6, 4, 4}, torch::kFloat64);
  const auto common = normals({300, 1, 1, 1}, "common") * pattern;
  const auto z = std::sqrt(0.8) * common + std::sqrt(0.2) * own;
  const auto found = choose_modes(z);
  ASSERT_EQ(found.count(), 1);
  EXPECT_NEAR(found.modes.square().mean().item<double>(), 0.8, 0.1);
  // Every node keeps its mean square.
  const auto total = found.modes.square().sum(0) + found.rest.square();
  EXPECT_TRUE(near(total, z.square().mean(0), {1e-9, 1e-9}));
  EXPECT_EQ(choose_modes(own).count(), 0);
  // Nodes and frames that are certain get nothing.
  auto quiet = z.clone();
  quiet.select(1, 0).zero_();
  EXPECT_EQ(choose_modes(quiet).rest[0].abs().max().item<double>(), 0);
}

// Cases and nodes that are far off do not decide how errors go together.
TEST(TasksErrorModes, UnitModesDoNotDependOnSizes) {
  const auto pattern = normals({1, 6, 4, 4}, "pattern").sign();
  const auto z = std::sqrt(0.7) * normals({200, 1, 1, 1}, "amount") * pattern +
                 std::sqrt(0.3) * normals({200, 6, 4, 4}, "beside");
  const auto size = (3 * normals({200, 1, 1, 1}, "case size")).exp() *
                    normals({1, 6, 4, 4}, "node size").exp();
  const auto plain = unit_modes(z), sized = unit_modes(z * size);
  ASSERT_GE(plain.count(), 1);
  ASSERT_GE(sized.count(), 1);
  for (const auto& modes : {plain, sized}) {
    EXPECT_TRUE(near(modes.modes.square().sum(0) + modes.rest.square(),
                     torch::ones({6, 4, 4}, torch::kFloat64), {1e-9, 0}));
    const auto along = (modes.modes[0] * pattern[0]).mean().abs();
    EXPECT_GT(along.item<double>(), 0.7);
  }
  const auto larger = plain.scaled(torch::full({6}, 3.0, torch::kFloat64));
  EXPECT_TRUE(near(larger.rest, 3 * plain.rest, {1e-12, 0}));
}

// Noise as the modes say, the same whichever trajectories are drawn together.
TEST(TasksErrorModes, NoiseHasTheCovarianceAndFollowsItsRow) {
  const ErrorModes modes{normals({1, 3, 2, 2}, "mode"),
                         torch::full({3, 2, 2}, 0.5, torch::kFloat64)};
  const RandomStream stream(1, "noise");
  std::vector<int64_t> rows(8000);
  for (size_t n = 0; n < rows.size(); ++n) rows[n] = static_cast<int64_t>(n);
  const auto all = mode_noise(modes, stream, rows);
  const auto some = mode_noise(modes, stream, {17, 5});
  for (const int64_t t : {1, 2}) {
    EXPECT_TRUE(torch::equal(some(t)[0], all(t)[17]));
    EXPECT_TRUE(torch::equal(some(t)[1], all(t)[5]));
  }
  const auto one = all(1).flatten(1), two = all(2).flatten(1);
  const auto a = modes.modes[0][1].flatten(), b = modes.modes[0][2].flatten();
  const auto same = torch::outer(a, a) + 0.25 * torch::eye(4, torch::kFloat64);
  EXPECT_TRUE(near(torch::matmul(one.t(), one) / 8000, same, {0.05, 0.06}));
  // Frames share the modes and nothing else.
  EXPECT_TRUE(near(torch::matmul(one.t(), two) / 8000, torch::outer(a, b),
                   {0.05, 0.06}));
}

TEST(TasksForecastSpread, DrawsFollowTheSeedAndNotTheBatch) {
  for (const char* mask : {"model.mask=block", "model.mask=causal"}) {
    const auto e = bands({mask});
    const auto model = prepared_model(e);
    auto& task = forecast_of(e);
    task.measure_calibration(*model);
    const auto given = task.given_cases(2);
    const auto draw = [&](const run::Experiment& experiment, int64_t count,
                          int64_t seed) {
      torch::Tensor fields =
          torch::empty({2, count, 10, 6, 5}, kDouble.options());
      forecast_of(experiment)
          .continue_cases(*model, given, count, RandomStream(seed, "generate"),
                          kDouble,
                          [&](const std::string& name, int64_t begin,
                              const torch::Tensor& rows) {
                            if (name == "fields") fields[begin].copy_(rows[0]);
                          });
      return fields;
    };
    const auto four = draw(e, 4, 0);
    EXPECT_TRUE(torch::equal(four, draw(e, 4, 0)));
    EXPECT_FALSE(torch::equal(four, draw(e, 4, 1)));
    EXPECT_FALSE(torch::equal(four[0][0], four[0][1]));
    EXPECT_TRUE(near(draw(e, 2, 0), four.slice(1, 0, 2), {1e-9, 1e-10}));
    EXPECT_TRUE(torch::equal(four.select(1, 3).narrow(1, 0, 3),
                             given.at("fields").narrow(1, 0, 3)));
    const auto small = bands({mask, "eval.batch=3"});
    small.task().prepare(0, kDouble);
    forecast_of(small).use_calibration(task.measure_calibration(*model));
    EXPECT_TRUE(near(draw(small, 4, 0), four, {1e-9, 1e-10}));
  }
}

// The whole answer of a block model has its deviations, scaled.
TEST(TasksForecastSpread, PredictGivesDeviations) {
  const auto e = bands();
  const auto model = prepared_model(e);
  auto& task = forecast_of(e);
  const auto measured = task.measure_calibration(*model);
  const auto given = task.given_cases(2);
  const auto answer = task.surrogate(model, kDouble)->apply(given);
  const torch::NoGradGuard no_grad;
  const auto raw =
      models::as_forecaster(*model)
          .spread(given.at("fields").narrow(1, 0, 3), given.at("alpha"))
          .deviation;
  const auto expected = raw * measured.at("scale").view({1, -1, 1, 1});
  const auto& found = answer.at("deviation");
  EXPECT_TRUE(near(found.slice(1, 3), expected.slice(1, 3), {1e-10, 1e-12}));
  EXPECT_EQ(found.narrow(1, 0, 3).abs().max().item<double>(), 0);
  const auto causal = bands({"model.mask=causal"});
  const auto other = prepared_model(causal);
  EXPECT_EQ(causal.task().surrogate(other, kDouble)->outputs().size(), 2u);
}

// What the page shows beside the figures of a forecast without a variance.
TEST(TasksForecastSpread, ThePageHasBandsMapsAndCoverage) {
  for (const char* key : {"heteroscedastic", "mse"}) {
    const TemporaryFolder folder;
    const auto e = bands({std::string("loss.frames=") + key});
    const auto model = prepared_model(e);
    const auto evaluation = e.task().evaluate(*model, data::Split::kTest);
    report::Report report(folder.path(), "report.html", "bands", "");
    forecast_of(e).draw(*model, &evaluation, 2, report);
    const bool with = std::string(key) != "mse";
    for (const char* name :
         {"band-0", "band-errors-1", "deviation", "coverage-per-frame"}) {
      EXPECT_EQ(std::filesystem::exists(folder / "figures" /
                                        (std::string(name) + ".gp")),
                with)
          << name;
    }
    EXPECT_EQ(evaluation.numbers.contains("spread"), with);
    const auto names = e.task().metric_names();
    for (const auto& metric : evaluation.metrics) {
      EXPECT_EQ(std::ranges::count(names, metric.name), 1) << metric.name;
    }
  }
}

TEST(TasksForecastSpread, ResumedTrainingGivesTheSameBits) {
  for (const char* mask : {"model.mask=block", "model.mask=causal"}) {
    const TemporaryFolder folder;
    const auto e = bands({mask});
    const auto whole = testing::trained_to(6, e, kDouble, folder / "whole", {});
    const auto resumed = testing::trained_to(
        6, bands({mask}), kDouble, folder / "resumed",
        train::checkpoint_path(folder / "whole" / "checkpoints", 3));
    ASSERT_TRUE(whole.model.contains("variance.weight"));
    for (const auto& [name, value] : whole.model) {
      EXPECT_TRUE(torch::equal(value, resumed.model.at(name))) << name;
    }
  }
}

// Results of runs without a variance still match their configurations.
TEST(TasksForecastSpread, DefaultsAreNoPartOfTheHash) {
  const auto plain = bands({"loss.frames=mse"});
  auto document = config::Document::from_text(kBands, "bands.yaml");
  document.override_with("loss.frames=mse");
  document.override_with("eval.draws=32");
  document.override_with("eval.calibration=frame");
  EXPECT_EQ(run::Experiment(document).hash(), plain.hash());
  EXPECT_NE(bands().hash(), plain.hash());
}

TEST(TasksForecastSpread, WhatCannotBeIsRefused) {
  EXPECT_NE(thrown<ConfigError>([] {
              bands({"model.inputs=published", "eval.protocol=published"});
            }).find("loss.frames"),
            std::string::npos);
  const auto e = bands({"loss.frames=mse"});
  const auto model = prepared_model(e);
  auto& task = forecast_of(e);
  EXPECT_TRUE(task.measure_calibration(*model).empty());
  EXPECT_NE(thrown<UsageError>([&] {
              task.trajectory_shapes(*model, task.given_cases(1), 2);
            }).find("predicts no variance"),
            std::string::npos);
  EXPECT_NE(thrown<UsageError>([&] { task.given_cases(7); }).find("6 cases"),
            std::string::npos);
  const auto with = bands();
  const auto other = prepared_model(with);
  auto measured = forecast_of(with).measure_calibration(*other);
  const auto first = forecast_of(with).given_cases(1);
  const auto unprepared = bands();
  EXPECT_FALSE(forecast_of(unprepared).is_calibrated());
  EXPECT_NE(thrown<UsageError>([&] {
              forecast_of(unprepared)
                  .continue_cases(*other, first, 1, RandomStream(0, "g"),
                                  kDouble, {});
            }).find("not calibrated"),
            std::string::npos);
  measured["scale"] = measured.at("scale") / 0;
  EXPECT_NE(thrown<DataError>([&] {
              forecast_of(with).use_calibration(measured);
            }).find("not finite"),
            std::string::npos);
  measured["scale"] = measured.at("scale").slice(0, 1);
  EXPECT_THROW(forecast_of(with).use_calibration(measured), DataError);
  measured.erase("scale");
  EXPECT_NE(thrown<DataError>([&] {
              forecast_of(with).use_calibration(measured);
            }).find("no 'scale'"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::tasks
