#include "propagator/cli/finish.h"

#include <ATen/Parallel.h>
#include <torch/version.h>

#include "propagator/cli/commands.h"
#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"
#include "propagator/core/machine.h"
#include "propagator/core/progress.h"
#include "propagator/core/version.h"
#include "propagator/explain/leak_audit.h"
#include "propagator/nn/init.h"
#include "propagator/run/run_report.h"

namespace propagator::cli {
namespace {

using nlohmann::json;

json provenance(const run::Experiment& experiment, const Runtime& runtime) {
  return {{"config_sha256", experiment.hash()},
          {"code", fmt::format("{} {}", kVersion, kCommit)},
          {"seed", experiment.run().seed},
          {"device", runtime.device_name()},
          {"precision", config::name_of(runtime.precision)},
          {"threads", at::get_num_threads()},
          {"machine", machine_name(runtime.device)},
          {"libtorch", TORCH_VERSION}};
}

}  // namespace

Runtime runtime_for_training(const run::Experiment& experiment) {
  const auto runtime = experiment.make_runtime();
  if (runtime.device.is_mps()) {
    throw DeviceError("[device] a training sums in float64, which MPS lacks",
                      "use --device cpu");
  }
  return runtime;
}

void expect_memory(const run::Experiment& experiment,
                   const std::exception& error) {
  // Errors of our own have hints of their own.
  const bool ours = dynamic_cast<const Hinted*>(&error) != nullptr;
  if (ours || exit_code(error) != ExitCode::kDevice) return;
  const std::string what = error.what();
  throw DeviceError(what.substr(0, what.find('\n')),
                    experiment.hint_for_memory());
}

json test_model(const run::Experiment& experiment, torch::nn::Module& model,
                const Runtime& runtime, data::Split split) {
  auto& task = experiment.task();
  json result;
  {
    const PrecisionScope scope(runtime);
    result = task.evaluate(model, split);
  }
  if (const auto subject = task.audit_subject(model)) {
    const auto audit = explain::audit_leaks(*subject, experiment.run().seed);
    result["leak_audit"] = audit.to_json();
  }
  result["mode"] = task.mode();
  result["failed"] = task.failed(result);
  result["parameters"] = nn::parameter_count(model);
  result.update(provenance(experiment, runtime));
  return result;
}

void print_result(const run::Experiment& experiment, const json& result,
                  bool as_json) {
  if (as_json) {
    fmt::print("{}\n", result.dump(2));
    return;
  }
  const auto summary = experiment.task().summary(result);
  fmt::print("\n{}\n", summary.table.text());
  for (const auto& remark : summary.remarks) fmt::print("  {}\n", remark);
  if (result.contains("leak_audit")) {
    fmt::print("  leak audit: {}\n",
               result.at("leak_audit").at("verdict").get<std::string>());
  }
}

void print_explanation(const json& numbers) {
  if (numbers.contains("learned_propagator")) {
    fmt::print(
        "  learned propagator: {}\n",
        numbers.at("learned_propagator").at("verdict").get<std::string>());
  }
}

namespace {

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
                         const run::Experiment& experiment) {
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
                    const run::Experiment& experiment,
                    train::Trainer& trainer) {
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

int train_test_and_draw(const run::Experiment& experiment,
                        const std::function<train::RunDirectory()>& open_run,
                        const fs::path& checkpoint, bool as_json) {
  auto& task = experiment.task();
  const auto runtime = runtime_for_training(experiment);
  task.prepare(experiment.run().seed, runtime);
  for (const auto& remark :
       experiment.remarks(task.size(data::Split::kTrain))) {
    log::warn("{}", remark);
  }
  const auto model = experiment.make_model(runtime);
  auto options = experiment.train();
  options.time_limit = experiment.time_limit();
  train::Trainer trainer(task, model, options, experiment.run().seed, runtime,
                         experiment.yaml());
  std::string remark;
  if (checkpoint.empty()) {
    task.calibrate(*model);
  } else {
    const auto saved = train::load_checkpoint(checkpoint);
    remark = restore(saved, experiment, trainer);
    if (trainer.step() == trainer.total_steps()) {
      expect_same_precision(saved, runtime);
    }
    if (trainer.step() > trainer.total_steps()) {
      throw UsageError(
          fmt::format("{} is of step {}, after the last of {}",
                      checkpoint.string(), trainer.step(),
                      trainer.total_steps()),
          "a run can be made longer, not shorter; --from names an earlier "
          "checkpoint");
    }
  }
  auto run = open_run();
  log::also_to_file(run.log());
  log::info("{} parameters, {} steps on {} ({}), run in {}",
            nn::parameter_count(*model), trainer.total_steps(),
            runtime.device_name(), config::name_of(runtime.precision),
            run.path().string());
  if (trainer.step() == trainer.total_steps()) {
    log::info("all steps are done; testing");
  } else if (trainer.step() > 0) {
    log::info("resuming at step {}{}", trainer.step(), remark);
  }
  const auto reason = trainer.run(run);
  const bool late = reason == train::StopReason::kTimeLimit;
  if (late || reason == train::StopReason::kSignal) {
    log::info(
        "stopped{} at step {} of {} with a good checkpoint; go on with "
        "`propagator resume {}`",
        late ? fmt::format(" by the time limit of {}",
                           duration_text(options.time_limit))
             : "",
        trainer.step(), trainer.total_steps(), run.path().string());
    return static_cast<int>(ExitCode::kStopped);
  }
  const double seconds = trainer.seconds();
  trainer.load_best();
  auto result = test_model(experiment, *model, runtime, data::Split::kTest);
  result["steps"] = trainer.step();
  result["best_step"] = trainer.best_step();
  result["training_seconds"] = seconds;
  write_file_atomically(run.result(), result.dump(2) + "\n");
  if (!as_json) {
    print_result(experiment, result, as_json);
    fmt::print("  trained {} steps in {}, {} parameters, best at step {}\n",
               trainer.step(), duration_text(seconds),
               nn::parameter_count(*model), trainer.best_step());
  }
  std::fflush(stdout);  // the page takes some seconds
  fs::path page;
  if (experiment.report().page) {
    const auto report =
        run::write_run_report(experiment, *model, runtime, result,
                              fmt::format("step {}", trainer.best_step()), run);
    if (report.numbers.contains("learned_propagator")) {
      result["learned_propagator"] = report.numbers.at("learned_propagator");
      write_file_atomically(run.result(), result.dump(2) + "\n");
    }
    if (!as_json) print_explanation(report.numbers);
    page = report.page;
  }
  if (as_json) {
    print_result(experiment, result, as_json);
    return 0;
  }
  fmt::print("  run: {}\n  result: {}\n", run.path().string(),
             run.result().string());
  if (!page.empty()) fmt::print("  report: {}\n", page.string());
  return 0;
}

}  // namespace

int train_and_report(const run::Experiment& experiment,
                     const std::function<train::RunDirectory()>& open_run,
                     const fs::path& checkpoint, bool as_json) {
  return with_hint_for_memory(experiment, [&] {
    return train_test_and_draw(experiment, open_run, checkpoint, as_json);
  });
}

int resume_run(train::RunDirectory run, const run::Experiment& experiment,
               const std::string& from, bool as_json) {
  const bool fresh =
      from.empty() && train::list_checkpoints(run.checkpoints()).empty();
  const auto checkpoint =
      fresh ? fs::path() : choose_checkpoint(run, experiment.schema(), from);
  const auto open_run = [&] {
    // What was overridden holds from now on.
    write_file_atomically(run.config(), experiment.yaml());
    return std::move(run);
  };
  return train_and_report(experiment, open_run, checkpoint, as_json);
}

}  // namespace propagator::cli
