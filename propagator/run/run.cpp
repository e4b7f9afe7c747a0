#include "propagator/run/run.h"

#include <fmt/format.h>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"
#include "propagator/run/base.h"
#include "propagator/run/calibration.h"
#include "propagator/run/simulation.h"

namespace propagator::run {
namespace {

// A run and its checkpoints differ at most in what `resume` has changed, and in
// where they were computed.
void expect_checkpoint_of(const train::RunDirectory& run,
                          const config::Schema& schema,
                          const fs::path& checkpoint) {
  auto mine = run.read_config();
  auto other = config::Document::from_text(
      train::load_config(checkpoint), (checkpoint / "config.yaml").string());
  mine.rename_former(schema);
  other.rename_former(schema);
  for (const auto& field : schema.fields()) {
    const auto here = mine.get(field.path), there = other.get(field.path);
    if (!here || !there || *here == *there) continue;
    const bool may_differ = config::resume_may_change(field.role) ||
                            field.role == config::Role::kLabel;
    if (may_differ) continue;
    throw UsageError(
        fmt::format("{} is of another run: it has {}={}, and {} has {}",
                    checkpoint.string(), field.path, *there,
                    run.path().string(), *here),
        "--from names a checkpoint of the run itself, whose config.yaml stays "
        "as it was trained");
  }
}

}  // namespace

Run::Run(const fs::path& folder, const OpenOptions& options)
    : directory_(std::make_unique<train::RunDirectory>(
          train::RunDirectory::open(folder))) {
  experiment_ = changed_experiment(directory_->read_config(), options.change,
                                   config::evaluation_may_change);
  if (options.for_pages) experiment_->prepare_for_pages();
  runtime_ = experiment_->make_runtime();
  scope_ = std::make_unique<RuntimeScope>(runtime_);
  const auto& task = experiment_->task();
  model_ = experiment_->new_model();
  model_->to(runtime_.device, runtime_.dtype());
  const auto path =
      choose_checkpoint(*directory_, experiment_->schema(), options.from);
  checkpoint_ = path.filename().string();
  auto weights = train::load_weights(path, options.weights);
  for (const auto& name : task.former_parameters()) weights.erase(name);
  if (!options.adapter.empty()) {
    weights = weights_with_adapter(*model_, weights, options.adapter);
  }
  set_weights(task, *model_, std::move(weights), path.string());
  model_->eval();
  if (options.weights == train::Weights::kBest && options.adapter.empty()) {
    use_calibration_of(*directory_, path, experiment_->task());
  }
  surrogate_ = task.surrogate(model_, runtime_);
}

void Run::prepare_data(std::optional<int64_t> seed) const {
  const RuntimeScope scope(runtime_, experiment_->run().threads);
  provide_simulated_files(experiment_->task(), experiment_->run().device);
  experiment_->task().prepare(seed.value_or(experiment_->run().seed), runtime_);
}

std::unique_ptr<Experiment> changed_experiment(
    config::Document document, const Change& change,
    bool (*may_change)(config::Role)) {
  auto trained = std::make_unique<Experiment>(document);
  if (!change) return trained;
  const auto& schema = trained->schema();
  document.rename_former(schema);
  const auto before = document.entries();
  change(document);
  // Of what was asked for: the run's own file is the program's affair.
  for (const auto& renamed : document.rename_former(schema)) {
    log::warn("{}", renamed);
  }
  for (const auto& [key, entry] : document.entries()) {
    const auto old = before.find(key);
    if (old != before.end() && old->second.text == entry.text) continue;
    const auto* field = schema.find(key);
    if (field == nullptr || may_change(field->role)) continue;
    throw ConfigError(
        key,
        fmt::format("{}: {} belongs to the run and cannot be changed here",
                    entry.where, key),
        "train another run with it: propagator train … --name NAME");
  }
  return std::make_unique<Experiment>(std::move(document));
}

void set_weights(const tasks::Task& task, torch::nn::Module& model,
                 train::NamedTensors weights, const std::string& source) {
  for (const auto& name : task.former_parameters()) weights.erase(name);
  train::set_parameters(model, weights, source);
}

fs::path choose_checkpoint(const train::RunDirectory& run,
                           const config::Schema& schema,
                           const std::string& from) {
  if (!from.empty()) {
    for (const auto& path : {fs::path(from), run.checkpoints() / from}) {
      if (!fs::is_directory(path)) continue;
      expect_checkpoint_of(run, schema, path);
      return path;
    }
    std::string names;
    for (const auto& path : train::list_checkpoints(run.checkpoints())) {
      names += fmt::format(" {}", path.filename().string());
    }
    throw FileError("no checkpoint at " + from, "there are:" + names);
  }
  const auto all = train::list_checkpoints(run.checkpoints());
  if (all.empty()) {
    throw FileError(
        fmt::format("{} has no checkpoint yet", run.path().string()),
        "`propagator resume` starts it again");
  }
  expect_checkpoint_of(run, schema, all.back());
  return all.back();
}

void rethrow_with_memory_hint(const Experiment& experiment,
                              const std::exception& error) {
  // Errors of our own have hints of their own.
  const bool ours = dynamic_cast<const Hinted*>(&error) != nullptr;
  if (ours || exit_code(error) != ExitCode::kDevice) return;
  const std::string what = error.what();
  throw DeviceError(what.substr(0, what.find('\n')),
                    experiment.hint_for_memory());
}

}  // namespace propagator::run
