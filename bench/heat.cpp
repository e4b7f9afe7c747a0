// Times of the heat plate at the document's size, as JSON on stdout:
//   bench_heat step CONFIG      one training step, data and optimiser included
//   bench_heat rollout CONFIG   all frames from the visible ones, cached
// each with `-s key=value` overrides after it. bench/compare runs it beside
// the peers.

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/progress.h"
#include "propagator/core/version.h"
#include "propagator/models/forecaster.h"
#include "propagator/nn/init.h"
#include "propagator/tasks/experiment.h"
#include "propagator/tasks/forecast.h"

namespace {

using namespace propagator;
using nlohmann::json;

void wait_for(const Runtime& runtime) {
  // Reading a number back waits for everything that was queued before it.
  if (!runtime.device.is_cpu()) {
    torch::zeros({1}, runtime.options()).item<float>();
  }
}

// Milliseconds of `work`, repeated; the first calls are not counted.
std::vector<double> measure(const Runtime& runtime, int warm_up, int repeats,
                            const std::function<void()>& work) {
  std::vector<double> times;
  for (int n = 0; n < warm_up + repeats; ++n) {
    wait_for(runtime);
    const auto start = std::chrono::steady_clock::now();
    work();
    wait_for(runtime);
    const std::chrono::duration<double, std::milli> time =
        std::chrono::steady_clock::now() - start;
    if (n >= warm_up) times.push_back(time.count());
  }
  std::ranges::sort(times);
  return times;
}

// Operations a second of a large matrix product: this machine's limit.
double product_rate(const Runtime& runtime) {
  const int64_t n = runtime.device.is_cpu() ? 1536 : 8192;
  const auto a = torch::rand({n, n}, runtime.options());
  const auto b = torch::rand({n, n}, runtime.options());
  const auto times = measure(runtime, 2, 5, [&] { torch::mm(a, b); });
  return 2.0 * static_cast<double>(n * n * n) / (times[0] * 1e-3);
}

struct Sizes {
  double batch, frames, nodes, visible, width, layers, heads, hidden;
  bool causal;
};

// Multiply-adds of one forward pass in the form we compute it.
double forward_products(const Sizes& s) {
  const double tokens = s.batch * s.frames, prefix = s.visible;
  const double mlp = 2 * s.width * s.hidden;
  double layer = tokens * mlp;
  if (s.causal) {
    layer += tokens * (4 * s.width * s.width + s.frames * s.width);
  } else {
    // Folded into H·P keys and values; those are made for P tokens a case.
    const double folded = s.heads * prefix * s.width;
    layer += tokens * 2 * folded +
             s.batch * prefix * (2 * s.width + 2 * s.width) * s.width;
  }
  const double known = s.causal ? tokens : s.batch * prefix;
  return s.layers * layer + known * s.nodes * s.width +
         tokens * s.width * s.nodes;
}

Sizes sizes_of(const tasks::Experiment& experiment) {
  const auto number = [&](const char* key) {
    return std::stod(experiment.schema().find(key)->get());
  };
  return {number("train.batch"),
          number("plate.frames"),
          number("plate.rows") * number("plate.cols"),
          number("model.visible"),
          number("model.width"),
          number("model.layers"),
          number("model.heads"),
          number("model.feed_forward"),
          experiment.schema().find("model.mask")->get() == "causal"};
}

json describe(const tasks::Experiment& experiment, const Runtime& runtime,
              const std::vector<double>& times, double operations,
              double bytes) {
  const double median = times[times.size() / 2];
  return {
      {"device", runtime.device_name()},
      {"threads", at::get_num_threads()},
      {"precision", config::name_of(runtime.precision)},
      {"mask", experiment.schema().find("model.mask")->get()},
      {"ours_ms", median},
      {"fastest_ms", times.front()},
      {"slowest_ms", times.back()},
      {"repeats", times.size()},
      {"operations", operations},
      {"bytes", bytes},
      {"share_of_limit", operations / (median * 1e-3) / product_rate(runtime)},
      {"code", fmt::format("{} {}", kVersion, kCommit)}};
}

json bench_step(const tasks::Experiment& experiment, const Runtime& runtime) {
  auto& task = experiment.task();
  task.prepare(experiment.run().seed, runtime);
  const auto model = experiment.make_model(runtime);
  const int64_t batch = experiment.train().batch;
  train::Step stepper(task, model, {batch, 1, 0, experiment.train().optimizer},
                      runtime);
  data::BatchSampler sampler(task.size(data::Split::kTrain), batch, 0);
  int64_t step = 0;
  // A graph is captured in the fourth step.
  const auto times = measure(runtime, runtime.device.is_cpu() ? 2 : 20,
                             runtime.device.is_cpu() ? 9 : 101,
                             [&] { stepper.run(sampler.batch(step++), 1e-4); });
  const auto sizes = sizes_of(experiment);
  // Backward does twice the products of forward. Each weight is read twice,
  // its gradient written, and seven passes made by Adam; the field is read and
  // its gradient written.
  const auto count = static_cast<double>(nn::parameter_count(*model));
  const double field = sizes.batch * sizes.frames * sizes.nodes;
  return describe(experiment, runtime, times, 6 * forward_products(sizes),
                  4 * (10 * count + 4 * field));
}

json bench_rollout(const tasks::Experiment& experiment,
                   const Runtime& runtime) {
  const torch::NoGradGuard no_grad;
  const auto model = experiment.make_model(runtime);
  auto& forecaster = dynamic_cast<models::Forecaster&>(*model);
  const auto& plate = dynamic_cast<tasks::Forecast&>(experiment.task()).plate();
  const int64_t batch = experiment.train().batch;
  const auto cases =
      physics::draw_cases(plate, 0, 0, batch).to(runtime.options());
  const auto first =
      physics::solve(plate, cases).narrow(1, 0, forecaster.visible());
  const auto times =
      measure(runtime, 1, 5, [&] { forecaster.predict(first, cases.alpha); });
  const auto sizes = sizes_of(experiment);
  const auto count = static_cast<double>(nn::parameter_count(*model));
  return describe(experiment, runtime, times, 2 * forward_products(sizes),
                  4 * count * (sizes.frames - sizes.visible));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3) throw UsageError("usage: bench_heat step|rollout CONFIG");
    log::to_stderr(/*quiet=*/true);
    Progress::silence();
    auto document = config::Document::from_file(argv[2]);
    for (int n = 3; n + 1 < argc; n += 2) document.override_with(argv[n + 1]);
    const tasks::Experiment experiment(document);
    const auto runtime = experiment.make_runtime();
    const auto result = argv[1] == std::string("rollout")
                            ? bench_rollout(experiment, runtime)
                            : bench_step(experiment, runtime);
    fmt::print("{}\n", result.dump(2));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(exit_code(error));
  }
}
