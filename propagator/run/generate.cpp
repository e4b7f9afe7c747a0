#include "propagator/run/generate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"
#include "propagator/data/tensor_file.h"
#include "propagator/tasks/calibrated.h"

namespace propagator::run {
namespace {

// All of a few names; of many the first and the last, and how many they are.
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  if (names.size() <= kShown) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, {}, … {} ({} columns)", names[0], names[1],
                     names.back(), names.size());
}

const tasks::Generating& generating(const Run& run) {
  const auto* task =
      dynamic_cast<const tasks::Generating*>(&run.experiment().task());
  if (task) return *task;
  throw UsageError("[generate] this run's task draws no new cases",
                   "runs of the tasks density and forecast do");
}

const tasks::Writing* writing(const Run& run) {
  return dynamic_cast<const tasks::Writing*>(&run.experiment().task());
}

// The rows of the file, each `count` times over.
tasks::NamedTensors read_given(const tasks::Generating& task,
                               const GenerateOptions& options) {
  const auto names = task.given_columns();
  if (names.empty() != options.given.empty()) {
    throw names.empty()
        ? UsageError("[generate] nothing is given to this model",
                     "leave out --given")
        : UsageError("[generate] this model is given " + some_of(names),
                     "name a table of it with --given");
  }
  tasks::NamedTensors given;
  if (names.empty()) return given;
  const auto rows = data::read_points(options.given, names)
                        .repeat_interleave(options.count, 0);
  for (size_t n = 0; n < names.size(); ++n) {
    given[names[n]] = rows.select(1, static_cast<int64_t>(n));
  }
  return given;
}

// What `predict` would be given.
tasks::NamedTensors read_first_frames(const Run& run,
                                      const std::filesystem::path& path) {
  data::tensor_format(path);
  std::vector<std::string> names;
  for (const auto& port : run.surrogate().inputs()) names.push_back(port.name);
  return data::read_table(path, names);
}

}  // namespace

std::string generate(const Run& run, const GenerateOptions& options,
                     const std::filesystem::path& output) {
  const auto& task = generating(run);
  data::expect_written_table(output);  // before the work
  const auto given = read_given(task, options);
  const int64_t count =
      given.empty() ? options.count : given.begin()->second.size(0);
  const RuntimeScope scope(run.runtime(), run.experiment().run().threads);
  const auto drawn =
      task.generate(run.model(), given, count,
                    RandomStream(options.seed, "generate"), run.runtime());
  std::vector<data::Column> columns;
  for (const auto& name : task.given_columns()) {
    columns.push_back({name, given.at(name)});
  }
  for (const auto& name : task.generated_columns()) {
    columns.push_back({name, drawn.at(name)});
  }
  const nlohmann::json note{{"made_by", "propagator generate"},
                            {"run", run.experiment().run().name},
                            {"checkpoint", run.checkpoint()},
                            {"seed", options.seed}};
  data::write_table(output, columns, note.dump());
  return fmt::format("{} new cases of {} in {}", count,
                     fmt::join(task.generated_columns(), ", "),
                     output.string());
}

bool draws_trajectories(const Run& run) {
  return dynamic_cast<tasks::Continuing*>(&run.experiment().task()) != nullptr;
}

std::string generate_trajectories(const Run& run, torch::nn::Module& model,
                                  const TrajectoryOptions& options,
                                  const std::filesystem::path& output) {
  auto* task = dynamic_cast<tasks::Continuing*>(&run.experiment().task());
  if (task == nullptr) {
    throw UsageError("[generate] this run's task draws no trajectories",
                     "runs of the task forecast do");
  }
  if (options.count < 1 || options.cases < 1) {
    throw UsageError("[generate] expected one trajectory of one case at least");
  }
  data::written_format(output);  // before the work
  // Validation cases say how far deviations can be trusted, unless that is
  // known; of an ensemble it is not.
  const auto* calibrated =
      dynamic_cast<tasks::Calibrated*>(&run.experiment().task());
  if (options.given.empty() || &model != &run.model() ||
      (calibrated != nullptr && !calibrated->is_calibrated())) {
    run.prepare_data();
  }
  const RuntimeScope scope(run.runtime(), run.experiment().run().threads);
  const bool file = !options.given.empty();
  const auto given = file ? read_first_frames(run, options.given)
                          : task->given_cases(options.cases);
  const auto shapes = [&] {
    const auto find = [&] {
      return task->trajectory_shapes(model, given, options.count);
    };
    return file ? data::blame_file(options.given, find) : find();
  }();
  const nlohmann::json note{{"made_by", "propagator generate"},
                            {"run", run.experiment().run().name},
                            {"checkpoint", run.checkpoint()},
                            {"seed", options.seed}};
  const auto writer = data::TensorWriter::create(output, run.runtime().dtype(),
                                                 shapes, note.dump());
  task->continue_cases(
      model, given, options.count, RandomStream(options.seed, "generate"),
      run.runtime(),
      [&](const std::string& name, int64_t begin, const torch::Tensor& rows) {
        writer->write_rows(name, begin, rows);
      });
  writer->close();
  return fmt::format("{} trajectories of {} cases, fields ({}), in {}",
                     options.count, shapes.at("fields").front(),
                     fmt::join(shapes.at("fields"), ", "), output.string());
}

bool writes_text(const Run& run) { return writing(run) != nullptr; }

std::vector<std::string> generate_text(const Run& run,
                                       const tasks::TextRequest& request,
                                       int64_t seed) {
  const auto* task = writing(run);
  if (!task) {
    throw UsageError("[generate] this run's model writes no text",
                     "runs of the task sequence do");
  }
  const RuntimeScope scope(run.runtime(), run.experiment().run().threads);
  return task->write(run.model(), request, RandomStream(seed, "generate"),
                     run.runtime());
}

}  // namespace propagator::run
