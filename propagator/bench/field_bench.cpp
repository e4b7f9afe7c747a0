#include "propagator/bench/field_bench.h"

#include <fmt/format.h>
#include <torch/utils.h>
#include <unistd.h>

#include "propagator/bench/product_counter.h"
#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/nn/init.h"
#include "propagator/tasks/forecast/fields/field_forecast.h"
#include "propagator/tasks/forecast/fields/replayed_rollout.h"

namespace propagator::bench {
namespace {

using tasks::FieldForecast;
using torch::Tensor;

constexpr int64_t kRandomCases = 64;
constexpr int64_t kMoreFrames = 6;  // than a window has

FieldForecast& field_task(const run::Experiment& experiment) {
  auto* task = dynamic_cast<FieldForecast*>(&experiment.task());
  if (task != nullptr) return *task;
  throw UsageError(
      fmt::format("[bench] expected a network for any field, got {}",
                  experiment.schema().find("model.name")->get()),
      "`propagator list` shows them; heat-step and rollout are for plates");
}

// A file of random fields that lives as long as this.
class RandomFields {
 public:
  RandomFields(const data::FieldLayout& layout, int64_t frames, int64_t cases)
      : path_(fs::temp_directory_path() /
              fmt::format("propagator-bench-{}.h5", getpid())) {
    data::FieldSet set{.layout = layout};
    const auto exact = torch::dtype(torch::kFloat64);
    set.layout.times = torch::arange(frames, exact);
    std::vector<int64_t> shape{cases, frames};
    for (const auto& axis : layout.axes) shape.push_back(axis.at.numel());
    shape.push_back(std::ssize(layout.channels));
    set.values = torch::rand(shape, torch::kFloat32);
    if (!layout.parameters.empty()) {
      set.parameters =
          torch::rand({cases, std::ssize(layout.parameters)}, exact);
    }
    data::write_field_set(path_, set);
  }
  ~RandomFields() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  RandomFields(const RandomFields&) = delete;
  RandomFields& operator=(const RandomFields&) = delete;

  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

// Random fields in the place of those that would have to be simulated first.
std::unique_ptr<RandomFields> instead_of_simulated(FieldForecast& task) {
  if (task.simulated_files().empty()) return nullptr;
  auto fields = std::make_unique<RandomFields>(
      task.layout(), task.window() + kMoreFrames, kRandomCases);
  task.open_instead(fields->path());
  return fields;
}

// (B, frames, nodes…, C) of order one.
Tensor random_frames(const FieldForecast& task, int64_t cases, int64_t frames,
                     const torch::TensorOptions& options) {
  std::vector<int64_t> shape{cases, frames};
  for (const auto& axis : task.layout().axes) shape.push_back(axis.at.numel());
  shape.push_back(std::ssize(task.layout().channels));
  return torch::rand(shape, options);
}

models::Told random_told(const FieldForecast& task, int64_t cases,
                         const torch::TensorOptions& options) {
  const auto constants = std::ssize(task.data_options().constants());
  std::vector<int64_t> shape{cases};
  for (const auto& axis : task.layout().axes) shape.push_back(axis.at.numel());
  shape.push_back(constants);
  return {torch::rand({cases, std::ssize(task.data_options().told())}, options),
          constants > 0 ? torch::rand(shape, options) : Tensor()};
}

double numbers_of(const FieldForecast& task, int64_t frames) {
  return number(random_frames(task, 1, 1, torch::kFloat32).numel() * frames);
}

// Products of one case's forward pass, counted on the CPU, where kernels that
// count nothing are not in the way while there are gradients.
double forward_operations(const run::Experiment& experiment,
                          const FieldForecast& task, bool one_by_one,
                          int64_t frames) {
  const auto runtime = propagator::make_runtime("cpu", Precision::kFloat32);
  const auto model = experiment.make_model(runtime);
  auto& forecaster = models::as_field_forecaster(*model);
  const auto told = random_told(task, 1, torch::kFloat32);
  const int64_t given = task.data_options().given;
  const auto seen = random_frames(
      task, 1, one_by_one ? given : given + frames - 1, torch::kFloat32);
  return operations_of([&] {
    if (one_by_one) {
      forecaster.rollout(seen, told, frames);
    } else {
      forecaster.forward(seen, told);
    }
  });
}

}  // namespace

BenchResult bench_field_step(const run::Experiment& experiment,
                             const Runtime& runtime,
                             const BenchOptions& options) {
  auto& task = field_task(experiment);
  const auto fields = instead_of_simulated(task);
  const auto [times, weights] =
      time_steps("field-step", experiment, runtime,
                 plan_of(runtime, options, {2, 9}, {20, 101}));
  const auto& o = experiment.train();
  const int64_t cases = o.batch * o.accumulate;
  const auto& loss = task.loss_options();
  // Backward is two products for each of forward. In each pass every weight is
  // read twice and its gradient written; Adam makes seven passes.
  return {.name = "field-step",
          .cases = cases,
          .ms = times,
          .operations = 3 * number(cases) *
                        forward_operations(
                            experiment, task,
                            loss.inputs == tasks::TrainedOn::kOwn, loss.frames),
          .bytes = item_bytes(runtime) *
                   ((3 * number(o.accumulate) + 7) * weights +
                    number(cases) * numbers_of(task, task.window())),
          .parameters = weights};
}

BenchResult bench_field_predict(const run::Experiment& experiment,
                                const Runtime& runtime,
                                const BenchOptions& options) {
  auto& task = field_task(experiment);
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime);
  const int64_t cases = std::max<int64_t>(options.cases, 1);
  const int64_t given = task.data_options().given;
  const int64_t steps = task.eval_options().steps;
  const auto model = experiment.make_model(runtime);
  model->eval();
  tasks::ReplayedRollout rollout(models::as_field_forecaster(*model), runtime);
  const auto first = random_frames(task, cases, given, runtime.options());
  const auto told = random_told(task, cases, runtime.options());
  const auto times = measure("field-predict", runtime,
                             plan_of(runtime, options, {2, 11}, {5, 51}),
                             [&] { rollout(first, told, steps); });
  const torch::AutoGradMode with_gradients(true);
  const double weights = number(nn::parameter_count(*model));
  return {.name = "field-predict",
          .cases = cases,
          .ms = times,
          .operations =
              number(cases) * forward_operations(experiment, task, true, steps),
          .bytes = item_bytes(runtime) *
                   (number(steps) * weights +
                    number(cases) * numbers_of(task, given + steps)),
          .parameters = weights};
}

}  // namespace propagator::bench
