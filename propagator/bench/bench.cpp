#include "propagator/bench/bench.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/bench/field_bench.h"
#include "propagator/bench/green_bench.h"
#include "propagator/bench/heat_products.h"
#include "propagator/bench/residual_bench.h"
#include "propagator/bench/sequence_bench.h"
#include "propagator/core/error.h"
#include "propagator/nn/init.h"
#include "propagator/tasks/forecast/forecast.h"
#include "propagator/tasks/locate/locate.h"
#include "propagator/train/step.h"

namespace propagator::bench {
namespace {

constexpr double kLearningRate = 1e-4;  // of the steps, which learn nothing

// A graph is captured in the fourth step.
TimingPlan step_plan(const Runtime& runtime, const BenchOptions& options) {
  return plan_of(runtime, options, {2, 9}, {20, 101});
}

TimingPlan case_plan(const Runtime& runtime, const BenchOptions& options) {
  return plan_of(runtime, options, {1, 5}, {2, 11});
}

double field_size(const HeatSizes& s) {
  return number(s.batch * s.frames) * number(s.nodes);
}

BenchResult bench_step(const run::Experiment& experiment,
                       const Runtime& runtime, const BenchOptions& options) {
  const HeatSizes sizes(experiment);
  const auto products = forward_products(sizes);
  const auto plan = step_plan(runtime, options);
  const auto [times, weights] =
      time_steps("heat-step", experiment, runtime, plan);
  // In each pass every weight is read twice and its gradient written, and the
  // field and its gradient are read and written; Adam makes seven passes.
  const auto& o = experiment.train();
  const double parts = number(o.accumulate);
  const double numbers =
      (3 * parts + 7) * weights + 4 * parts * field_size(sizes);
  return {.name = "heat-step",
          .cases = o.batch * o.accumulate,
          .ms = times,
          .operations = parts * products.step_operations(),
          .bytes = item_bytes(runtime) * numbers,
          .floor_ms = parts * measure_floor(products, runtime, plan)};
}

BenchResult bench_locate_step(const run::Experiment& experiment,
                              const Runtime& runtime,
                              const BenchOptions& options) {
  const auto [times, weights] =
      time_steps("locate-step", experiment, runtime,
                 plan_of(runtime, options, {50, 501}, {20, 501}));
  const auto& o = experiment.train();
  const auto& detector =
      dynamic_cast<tasks::Locate&>(experiment.task()).detector();
  // Every weight meets every token, once forward and twice backward.
  const double tokens = number(detector.sensors() + 1);
  const int64_t cases = o.batch * o.accumulate;
  return {
      .name = "locate-step",
      .cases = cases,
      .ms = times,
      .operations = 6 * weights * tokens * number(cases),
      .bytes = item_bytes(runtime) * (3 * number(o.accumulate) + 7) * weights};
}

BenchResult bench_density_step(const run::Experiment& experiment,
                               const Runtime& runtime,
                               const BenchOptions& options) {
  const auto [times, weights] =
      time_steps("density-step", experiment, runtime,
                 plan_of(runtime, options, {20, 201}, {20, 501}));
  const auto& o = experiment.train();
  const int64_t cases = o.batch * o.accumulate;
  // Every weight meets every row, once forward and twice backward; in a
  // transformer once for each variable after the first, which of two is the
  // same.
  return {
      .name = "density-step",
      .cases = cases,
      .ms = times,
      .operations = 6 * weights * number(cases),
      .bytes = item_bytes(runtime) * (3 * number(o.accumulate) + 7) * weights};
}

const physics::HeatPlateOptions& plate_of(const run::Experiment& experiment) {
  return dynamic_cast<tasks::Forecast&>(experiment.task()).plate();
}

data::PlateBatch make_plates(const run::Experiment& experiment,
                             const Runtime& runtime, int64_t count) {
  const auto& plate = plate_of(experiment);
  const auto cases = physics::draw_cases(plate, experiment.run().seed, 0, count)
                         .to(runtime.options());
  return {physics::solve(plate, cases), cases.alpha, cases.dt};
}

// A causal model reads all weights and its whole cache for every frame.
double prediction_bytes(const HeatSizes& s, double weights, double item) {
  if (!s.causal) return item * (weights + field_size(s));
  const double frames = number(s.frames - s.visible);
  const double cached = frames * number(s.visible + 1 + s.frames) / 2;
  return item * (frames * weights + field_size(s) +
                 2 * number(s.layers * s.batch * s.width) * cached);
}

BenchResult bench_rollout(const run::Experiment& experiment,
                          const Runtime& runtime, const BenchOptions& options) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime);
  HeatSizes sizes(experiment);
  sizes.batch = cases_of(experiment, runtime, options);
  const auto model = experiment.make_model(runtime);
  auto& forecaster = models::as_forecaster(*model);
  const auto plates = make_plates(experiment, runtime, sizes.batch);
  const auto first = plates.frames.narrow(1, 0, sizes.visible).clone();
  const auto times = measure("rollout", runtime, case_plan(runtime, options),
                             [&] { forecaster.predict(first, plates.alpha); });
  return {.name = "rollout",
          .cases = sizes.batch,
          .ms = times,
          .operations = predict_products(sizes).forward_operations(),
          .bytes = prediction_bytes(sizes, number(nn::parameter_count(*model)),
                                    item_bytes(runtime))};
}

BenchResult bench_data(const run::Experiment& experiment,
                       const Runtime& runtime, const BenchOptions& options) {
  const auto& plate = plate_of(experiment);
  const int64_t cases = cases_of(experiment, runtime, options);
  const auto times = measure("data", runtime, case_plan(runtime, options),
                             [&] { make_plates(experiment, runtime, cases); });
  const double inner = number((plate.rows - 2) * (plate.cols - 2));
  const double nodes = number(plate.rows * plate.cols);
  // Two scaled second differences of four operations each, added.
  return {.name = "data",
          .cases = cases,
          .ms = times,
          .operations = 10 * number(cases * (plate.frames - 1)) * inner,
          .bytes = item_bytes(runtime) * number(cases * plate.frames) * nodes};
}

BenchResult bench_eval(const run::Experiment& experiment,
                       const Runtime& runtime, const BenchOptions& options) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime);
  HeatSizes sizes(experiment);
  const int64_t at_once = cases_of(experiment, runtime, {});
  sizes.batch = cases_of(experiment, runtime, options);
  const auto model = experiment.make_model(runtime);
  auto& forecaster = models::as_forecaster(*model);
  const auto plates = make_plates(experiment, runtime, sizes.batch);
  const auto test = [&](int64_t begin, int64_t count) {
    const auto truth = plates.frames.narrow(0, begin, count);
    const auto alpha = plates.alpha.narrow(0, begin, count);
    const auto answer =
        forecaster.autoregressive()
            ? forecaster.predict(truth.narrow(1, 0, sizes.visible), alpha)
            : forecaster.forward(truth, alpha);
    return (answer - truth).to(torch::kFloat64).square().sum({0, 2, 3}).cpu();
  };
  const auto times = measure("eval", runtime, case_plan(runtime, options), [&] {
    for (int64_t n = 0; n < sizes.batch; n += at_once) {
      test(n, std::min(at_once, sizes.batch - n));
    }
  });
  const double weights = number(nn::parameter_count(*model));
  const double passes = std::ceil(number(sizes.batch) / number(at_once));
  const double item = item_bytes(runtime);
  return {.name = "eval",
          .cases = sizes.batch,
          .ms = times,
          .operations = predict_products(sizes).forward_operations(),
          .bytes = prediction_bytes(sizes, passes * weights, item) +
                   2 * item * field_size(sizes)};
}

}  // namespace

double BenchResult::seconds_per_case() const {
  return ms.median * 1e-3 / number(cases);
}

nlohmann::json BenchResult::to_json() const {
  nlohmann::json json{{"name", name},
                      {"config_sha256", config_sha256},
                      {"cases", cases},
                      {"median_ms", ms.median},
                      {"fastest_ms", ms.fastest},
                      {"lower_quartile_ms", ms.lower_quartile},
                      {"upper_quartile_ms", ms.upper_quartile},
                      {"slowest_ms", ms.slowest},
                      {"repeats", ms.repeats},
                      {"seconds_per_case", seconds_per_case()},
                      {"cases_per_second", 1 / seconds_per_case()},
                      {"operations", operations},
                      {"bytes", bytes},
                      {"share_of_products", shares.of_products},
                      {"share_of_copy", shares.of_copy},
                      {"share_of_limit", shares.of_nearer()},
                      {"bound_by", shares.bound_by()}};
  if (ms.peak_memory) json["peak_memory_bytes"] = *ms.peak_memory;
  if (parameters) json["parameters"] = *parameters;
  if (floor_ms) {
    json["floor_ms"] = *floor_ms;
    json["floor_ratio"] = ms.median / *floor_ms;
  }
  return json;
}

const std::vector<BenchKind>& all_benches() {
  // The time of a step does not depend on how many plates there are.
  static const std::map<std::string, std::string> kFewPlates{
      {"data.cases", "256"}};
  static const std::vector<BenchKind> kinds{
      {"heat-step",
       "one training step: data, loss, gradients, optimiser",
       "forecast",
       "forecast/base-block",
       {},
       kFewPlates,
       bench_step},
      {"rollout",
       "a forecast of all frames from the visible ones",
       "forecast",
       "forecast/base-causal",
       {},
       kFewPlates,
       bench_rollout},
      {"data",
       "drawing and solving plates",
       "forecast",
       "forecast/base-block",
       {},
       kFewPlates,
       bench_data},
      {"eval",
       "forecasts of plates and their squared error",
       "forecast",
       "forecast/base-block",
       {},
       kFewPlates,
       bench_eval},
      {"kernels",
       "each fused operator beside libtorch's plain operations",
       "forecast",
       "forecast/base-block",
       {},
       kFewPlates,
       nullptr},
      {"field-step",
       "one training step of a network for any field",
       "forecast",
       "forecast/burgers-0.01",
       {},
       {},
       bench_field_step,
       "",
       nullptr,
       true},
      {"field-predict",
       "one forecast of any field, frame after frame",
       "forecast",
       "forecast/burgers-0.01",
       {},
       {},
       bench_field_predict,
       "",
       nullptr,
       true},
      {"locate-step",
       "one training step of a locator",
       "locate",
       "locate/lecture-2",
       {},
       {},
       bench_locate_step},
      {"density-step",
       "one training step of a density",
       "density",
       "density/lecture-maf",
       {},
       {},
       bench_density_step},
      {"generate",
       "one sequence, token by token, as long as the window",
       "sequence",
       "sequence/text",
       {},
       {},
       bench_generation},
      {"solve-gradient",
       "a PDE's loss and the gradient of all parameters",
       "solve",
       "wave",
       {{"task", "solve"},
        {"model.name", "pinnsformer"},
        {"hard_constraints", "no"},
        {"points.sampling", "grid"},
        {"points.window", "5"},
        {"points.per_axis", "51"}},
       {},
       bench_gradient,
       "solve-closure"},
      {"reconstruct-gradient",
       "the same of a field that is rebuilt from sensors",
       "reconstruct",
       "reconstruct/wake-pgt",
       {},
       {},
       bench_gradient},
      {"green-attention",
       "attention with a Green's function, forward and backward",
       "solve",
       "heat",
       {{"task", "solve"}},
       {},
       nullptr,
       "",
       bench_green}};
  return kinds;
}

TimedSteps time_steps(const std::string& name,
                      const run::Experiment& experiment, const Runtime& runtime,
                      const TimingPlan& plan) {
  auto& task = experiment.task();
  task.prepare(experiment.run().seed, runtime);
  const auto model = experiment.make_model(runtime);
  const auto& o = experiment.train();
  if (o.batch == 0) {
    throw ConfigError("train.batch", "train.batch: 0, all cases, is not timed",
                      "give a number of cases");
  }
  train::Step step(task, model, {o.batch, o.accumulate, o.clip, o.optimizer},
                   runtime);
  data::BatchSampler sampler(task.size(data::Split::kTrain), o.batch,
                             experiment.run().seed);
  int64_t batches = 0;
  const auto times = measure(name, runtime, plan, [&] {
    std::vector<int64_t> positions;
    for (int64_t part = 0; part < o.accumulate; ++part) {
      const auto batch = sampler.batch(batches++);
      positions.insert(positions.end(), batch.begin(), batch.end());
    }
    step.run(positions, kLearningRate);
  });
  return {times, number(nn::parameter_count(*model))};
}

double item_bytes(const Runtime& runtime) {
  return number(static_cast<int64_t>(torch::elementSize(runtime.dtype())));
}

TimingPlan plan_of(const Runtime& runtime, const BenchOptions& options,
                   const TimingPlan& on_cpu, const TimingPlan& on_gpu) {
  auto plan = runtime.device.is_cpu() ? on_cpu : on_gpu;
  if (options.repeats > 0) plan.repeats = options.repeats;
  return plan;
}

int64_t cases_of(const run::Experiment& experiment, const Runtime& runtime,
                 const BenchOptions& options) {
  if (options.cases > 0) return options.cases;
  const int64_t batch =
      std::stoll(experiment.schema().find("eval.batch")->get());
  return runtime.device.is_cpu() ? std::min(batch, kMostCasesOnCpu) : batch;
}

std::vector<BenchResult> run_bench(const BenchKind& kind,
                                   const run::Experiment& experiment,
                                   const Runtime& runtime, const Limits& limits,
                                   const BenchOptions& options) {
  std::vector<BenchResult> results;
  if (kind.measure_all != nullptr) {
    results = kind.measure_all(experiment, runtime, options);
  } else {
    results = {kind.measure(experiment, runtime, options)};
  }
  for (auto& result : results) {
    result.config_sha256 = experiment.hash();
    result.shares = shares_of(limits, result.ms.median * 1e-3,
                              result.operations, result.bytes);
  }
  return results;
}

}  // namespace propagator::bench
