#include "propagator/run/train.h"

#include <fmt/format.h>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"
#include "propagator/core/progress.h"
#include "propagator/core/ranks.h"
#include "propagator/core/stopwatch.h"
#include "propagator/nn/init.h"
#include "propagator/run/base.h"
#include "propagator/run/calibration.h"
#include "propagator/run/log_file.h"
#include "propagator/run/run_report.h"
#include "propagator/run/shared_run.h"
#include "propagator/run/simulation.h"

namespace propagator::run {
namespace {

using OpenFolder = std::function<train::RunDirectory()>;

// A result says in which precision it was trained; nothing is left to train.
void expect_same_precision(const train::Checkpoint& saved,
                           const Runtime& runtime) {
  const auto trained_in =
      config::Document::from_text(saved.config, "checkpoint").get("precision");
  const auto asked = config::name_of(runtime.precision);
  if (!trained_in || *trained_in == asked) return;
  throw UsageError(
      fmt::format("all steps were trained in {}, none is left for {}",
                  *trained_in, asked),
      fmt::format("`propagator eval --precision {}` tests it so; a larger "
                  "train.epochs goes on so",
                  asked));
}

// The first key of the loss that is another than the checkpoint's; else empty.
std::string changed_loss(const train::Checkpoint& saved,
                         const Experiment& experiment) {
  auto before = config::Document::from_text(saved.config, "checkpoint");
  before.rename_former(experiment.schema());
  for (const auto& field : experiment.schema().fields()) {
    if (field.role != config::Role::kLoss) continue;
    const auto now = field.get();
    if (before.get(field.path).value_or(now) != now) return field.path;
  }
  return "";
}

// Returns what there is to say of it.
std::string restore(const train::Checkpoint& saved,
                    const Experiment& experiment, train::Trainer& trainer) {
  const auto changed = changed_loss(saved, experiment);
  try {
    trainer.restore(saved);
  } catch (const DataError& error) {
    if (changed.empty()) throw;
    throw UsageError(fmt::format("the run cannot go on with another {}: {}",
                                 changed, error.what()),
                     "train another run with it");
  }
  if (changed.empty()) return "";
  if (trainer.step() == trainer.total_steps()) {
    throw UsageError(
        fmt::format("all steps were trained with another {}, none is left",
                    changed),
        "a larger train.epochs goes on with it");
  }
  trainer.forget_best();
  return fmt::format(
      "; {} is another, so the best model is searched from here on", changed);
}

// Sets the trainer to a checkpoint. Returns what there is to say of it.
std::string go_on_from(const fs::path& checkpoint,
                       const train::Checkpoint& saved,
                       const Experiment& experiment, const Runtime& runtime,
                       train::Trainer& trainer) {
  const auto remark = restore(saved, experiment, trainer);
  if (trainer.step() == trainer.total_steps()) {
    expect_same_precision(saved, runtime);
  }
  if (trainer.step() > trainer.total_steps()) {
    throw UsageError(
        fmt::format("{} is of step {}, after the last of {}",
                    checkpoint.string(), trainer.step(), trainer.total_steps()),
        "a run can be made longer, not shorter; --from names an earlier "
        "checkpoint");
  }
  return remark;
}

void log_begin(const train::Trainer& trainer, const std::string& parameters,
               double budget, const Runtime& runtime, const fs::path& folder,
               const std::string& remark) {
  if (trainer.total_steps() == 0) {
    log::info("fitted in {}, nothing to train ({}), run in {}",
              duration_text(trainer.seconds_before()),
              config::name_of(runtime.precision), folder.string());
    return;
  }
  log::info("{} parameters, {} on {} ({}), run in {}", parameters,
            budget > 0 ? duration_text(budget)
                       : fmt::format("{} steps", trainer.total_steps()),
            runtime.device_name(), config::name_of(runtime.precision),
            folder.string());
  if (trainer.step() == trainer.total_steps()) {
    log::info("all steps are done; testing");
  } else if (trainer.step() > 0) {
    log::info("resuming at step {}{}", trainer.step(), remark);
  }
}

void log_stop(const Trained& trained, const train::Trainer& trainer,
              double time_limit) {
  log::info(
      "stopped{} at step {} of {} with a good checkpoint; go on with "
      "`propagator resume {}`",
      trained.reason == train::StopReason::kTimeLimit
          ? fmt::format(" by the time limit of {}", duration_text(time_limit))
          : "",
      trainer.step(), trainer.total_steps(), trained.folder.string());
}

void write_result(const train::RunDirectory& run, const TestResult& result) {
  write_file_atomically(run.result(), result.text());
}

// Tests the best weights and writes the result and, if it is asked for, the
// page.
void test_and_draw(const Experiment& experiment, torch::nn::Module& model,
                   const Runtime& runtime, const train::RunDirectory& run,
                   Trained& trained) {
  auto& result = trained.result.emplace(
      test_model(experiment, model, runtime, data::Split::kTest));
  result.record["steps"] = trained.steps;
  result.record["best_step"] = trained.best_step;
  result.record["training_seconds"] = trained.seconds;
  result.record[train::kTrainedBy] = trained.trained_by;
  if (!trained.tuning.is_null()) result.record["tuning"] = trained.tuning;
  if (!trained.ranks.is_null()) result.record["ranks"] = trained.ranks;
  // With or without a page: a row may be about it.
  judge_step(experiment, model, runtime, result);
  if (result.step) {
    trained.explanation["learned_step"] = result.step->to_json();
  }
  write_result(run, result);
  if (!experiment.report().page) return;
  log::info("tested; writing the page");
  const auto report =
      write_run_report(experiment, model, runtime, &result,
                       fmt::format("step {}", trained.best_step), run);
  trained.page = report.page;
  trained.explanation = report.numbers;
  for (const char* learned : {"learned_propagator", "learned_step"}) {
    if (!report.numbers.contains(learned)) continue;
    result.record[learned] = report.numbers.at(learned);
    write_result(run, result);
  }
}

// The model with the weights that training begins with, and its fine-tuning.
struct Subject {
  std::shared_ptr<torch::nn::Module> model;
  std::unique_ptr<train::Tuning> tuning;

  std::string parameters() const {
    const auto all = nn::parameter_count(*model);
    if (!tuning) return fmt::format("{}", all);
    int64_t count = 0;
    for (const auto& value : model->parameters()) count += value.numel();
    return fmt::format("{} of {}", tuning->parameters(), count);
  }
  // For a result: how it was fine-tuned.
  nlohmann::json description() const {
    nlohmann::json said = tuning->metadata();
    said["trained_parameters"] = tuning->parameters();
    return said;
  }
};

// A new one, or with the shapes that a checkpoint will fill.
Subject make_subject(const Experiment& experiment, const Runtime& runtime,
                     const std::optional<train::Checkpoint>& saved,
                     const std::optional<Base>& base) {
  Subject subject{experiment.make_model(runtime), nullptr};
  auto& model = *subject.model;
  std::map<std::string, std::string> base_of;
  if (saved) {
    train::take_shapes(model, saved->model);
  } else {
    experiment.task().calibrate(model);
    if (base) {
      begin_from(*base, experiment, model);
      base_of = description_of(*base);
    }
  }
  subject.tuning = experiment.make_tuning(model);
  if (subject.tuning) subject.tuning->describe_base(std::move(base_of));
  return subject;
}

// Makes or opens the data that it trains on.
void prepare_data(const Experiment& experiment, const Runtime& runtime) {
  auto& task = experiment.task();
  on_first_rank(
      [&] { provide_simulated_files(task, experiment.run().device); });
  task.prepare(experiment.run().seed, runtime);
  for (const auto& remark :
       experiment.remarks(task.size(data::Split::kTrain))) {
    log::warn("{}", remark);
  }
}

Trained train_and_test(const Experiment& experiment, const fs::path& folder,
                       const OpenFolder& open_folder,
                       const fs::path& checkpoint) {
  auto& task = experiment.task();
  const auto runtime = runtime_for_training(experiment);
  const RuntimeScope scope(runtime, experiment.run().threads);
  expect_shareable(experiment, folder, checkpoint);
  std::optional<Base> base;
  if (checkpoint.empty() && experiment.tune().active()) {
    base = read_fitting_base(experiment);
  }
  prepare_data(experiment, runtime);
  // Before there is a trainer, which gives every weight its place in memory:
  // shapes may be those of the data.
  std::optional<train::Checkpoint> saved;
  if (!checkpoint.empty()) saved = train::load_checkpoint(checkpoint);
  const Stopwatch clock;
  const auto subject = make_subject(experiment, runtime, saved, base);
  const auto& model = subject.model;
  const double calibrated = clock.seconds();
  auto options = experiment.train();
  options.time_limit = experiment.time_limit();
  train::Trainer trainer(task, model, options, experiment.run().seed, runtime,
                         experiment.yaml(), subject.tuning.get());
  const auto remark =
      saved ? go_on_from(checkpoint, *saved, experiment, runtime, trainer) : "";
  saved.reset();
  base.reset();
  if (checkpoint.empty()) trainer.count_seconds(calibrated);
  auto run = open_folder_of_ranks(folder, open_folder);
  std::optional<LogFile> log_file;
  if (ranks().is_first()) log_file.emplace(run.log());
  log_begin(trainer, subject.parameters(), options.budget, runtime, run.path(),
            remark);
  Trained trained{.folder = run.path(), .reason = trainer.run(run)};
  trained.steps = trainer.step();
  trained.best_step = trainer.best_step();
  trained.seconds = trainer.seconds();
  trained.trained_by = trainer.trained_by();
  if (trained.stopped()) {
    log_stop(trained, trainer, options.time_limit);
    return trained;
  }
  trained.ranks = record_of_ranks();
  if (!ranks().is_first()) return trained;
  const RanksScope alone(one_rank());
  trainer.load_best();
  if (subject.tuning) {
    trained.tuning = subject.description();
    subject.tuning->release();
  }
  calibrate_best(experiment, *model, run, trained.best_step);
  test_and_draw(experiment, *model, runtime, run, trained);
  return trained;
}

}  // namespace

Runtime runtime_for_training(const Experiment& experiment) {
  const auto runtime = experiment.make_runtime();
  if (runtime.device.is_mps()) {
    throw DeviceError("[device] a training sums in float64, which MPS lacks",
                      "use --device cpu");
  }
  return runtime;
}

Trained train(const Experiment& experiment, const fs::path& folder, bool force,
              Observer& observer) {
  const ObserverScope scope(observer);
  if (ranks().is_first()) train::RunDirectory::expect_free(folder, force);
  return with_memory_hint(experiment, [&] {
    return train_and_test(experiment, folder,
                          [&] {
                            return train::RunDirectory::create(
                                folder, force, experiment.yaml());
                          },
                          /*checkpoint=*/{});
  });
}

Trained resume(const fs::path& folder, const ResumeOptions& options,
               Observer& observer) {
  const ObserverScope scope(observer);
  auto run = train::RunDirectory::open(folder);
  if (ranks().is_first()) run.lock();
  const auto changed = changed_experiment(run.read_config(), options.change,
                                          config::resume_may_change);
  auto& experiment = *changed;
  if (options.time_limit) experiment.limit_time(*options.time_limit);
  const bool fresh = options.from.empty() &&
                     train::list_checkpoints(run.checkpoints()).empty();
  const auto checkpoint =
      fresh ? fs::path()
            : choose_checkpoint(run, experiment.schema(), options.from);
  const auto open_folder = [&] {
    // What was changed holds from now on.
    write_file_atomically(run.config(), experiment.yaml());
    return std::move(run);
  };
  return with_memory_hint(experiment, [&] {
    return train_and_test(experiment, folder, open_folder, checkpoint);
  });
}

}  // namespace propagator::run
