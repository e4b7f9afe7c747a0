#include "propagator/run/test.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"
#include "propagator/core/machine.h"
#include "propagator/explain/explanation.h"
#include "propagator/explain/leak_audit.h"
#include "propagator/explain/learned_step.h"
#include "propagator/nn/init.h"
#include "propagator/tasks/explainable.h"
#include "propagator/tasks/step_metrics.h"

namespace propagator::run {
namespace {

using nlohmann::json;

constexpr const char* kAudit = "leak_audit";
constexpr const char* kMode = "mode";
constexpr const char* kUnfinished = "unfinished";
constexpr const char* kHash = "config_sha256";  // in all results of ours
constexpr const char* kStep = "learned_step";
constexpr const char* kSeconds = "training_seconds";

json provenance(const Experiment& experiment, const Runtime& runtime) {
  auto origin = computed_by(runtime);
  origin.update({{kHash, experiment.hash()},
                 {"seed", experiment.run().seed},
                 {"device", runtime.device_name()},
                 {"threads", at::get_num_threads()},
                 {"libtorch", TORCH_VERSION}});
  return origin;
}

// Null where the task has no leak to look for.
json audit(const Experiment& experiment, torch::nn::Module& model) {
  auto* task = dynamic_cast<tasks::Explainable*>(&experiment.task());
  if (task == nullptr) return {};
  const auto subject = task->audit_subject(model);
  if (!subject) return {};
  return explain::audit_leaks(*subject, experiment.run().seed).to_json();
}

// What pages and tables take from a record beside its evaluation.
void expect_parts(const json& record) {
  const auto expect = [](bool good, const char* key) {
    if (!good) throw DataError(fmt::format("its {} is not one of ours", key));
  };
  const auto part = [](const json& of, const char* key) {
    return of.is_object() ? of.value(key, json()) : json();
  };
  const auto audit = part(record, kAudit);
  expect(audit.is_null() || (part(audit, "leaks").is_number() &&
                             part(audit, "verdict").is_string()),
         kAudit);
  expect(part(record, kHash).is_string(), kHash);
  const auto seconds = part(record, kSeconds);
  expect(seconds.is_null() || seconds.is_number(), kSeconds);
}

// The test of an older program, again, with what its training said of itself.
TestResult test_again(const train::RunDirectory& directory, const json& old,
                      const OpenOptions& options) {
  log::info("{} is of an older program: testing the model again",
            directory.result().string());
  const auto run = open(directory.path(), options);
  run.prepare_data();
  auto result = test_run(run, data::Split::kTest);
  for (const auto& [key, value] : old.items()) {
    if (!result.record.contains(key)) result.record[key] = value;
  }
  return result;
}

}  // namespace

TestResult test_model(const Experiment& experiment, torch::nn::Module& model,
                      const Runtime& runtime, data::Split split) {
  auto& task = experiment.task();
  const RuntimeScope threads(runtime, experiment.run().threads);
  TestResult result;
  {
    const PrecisionScope scope(runtime);
    result.evaluation = task.evaluate(model, split);
  }
  result.audit = audit(experiment, model);
  result.record[kMode] = task.mode();
  if (result.leaks_though_honest()) {
    result.evaluation.failed = true;
    result.evaluation.remarks.emplace_back(
        "this run calls itself honest and leaks: it has failed");
  }
  result.record.update(result.evaluation.to_json());
  if (!result.audit.is_null()) result.record[kAudit] = result.audit;
  result.record["parameters"] = nn::parameter_count(model);
  result.record.update(provenance(experiment, runtime));
  return result;
}

void judge_step(const Experiment& experiment, torch::nn::Module& model,
                const Runtime& runtime, TestResult& result) {
  auto* task = dynamic_cast<tasks::Explainable*>(&experiment.task());
  const auto subject =
      task == nullptr ? std::nullopt : task->step_subject(model);
  if (!subject || !subject->truth) return;
  try {
    result.step = std::make_shared<explain::LearnedStep>(explain::learn_step(
        *subject, /*cell=*/{}, explain::affordable_work(runtime.device)));
  } catch (const NumericalError& error) {  // as after a training that diverged
    log::warn("{}", error.what());
    return;
  }
  auto& metrics = result.evaluation.metrics;
  metrics.push_back({tasks::kStepAtCells, result.step->at_cells.learned});
  metrics.push_back({tasks::kStepInData, result.step->in_data.learned});
  result.record.update(result.evaluation.to_json());
  result.record[kStep] = result.step->to_json();
}

bool TestResult::leaks_though_honest() const {
  return !audit.is_null() && record.at(kMode) == "honest" &&
         audit.at("leaks") != 0;
}

TestResult test_run(const Run& run, data::Split split) {
  auto result = test_model(run.experiment(), run.model(), run.runtime(), split);
  const auto& folder = run.directory();
  if (fs::exists(folder.result())) return result;
  const auto state = train::load_state(folder.checkpoints() / run.checkpoint());
  const auto step = state.at("step").get<int64_t>();
  const auto total = state.value("total_steps", step);
  if (step < total) {
    result.record[kUnfinished] = fmt::format("step {} of {}", step, total);
  }
  return result;
}

std::string verdict(const TestResult& result) {
  if (result.record.contains(kUnfinished)) {
    return fmt::format(
        "not finished: this is {}; `propagator resume` goes on with it",
        result.record.at(kUnfinished).get<std::string>());
  }
  return result.evaluation.failed ? "this run has failed" : "";
}

std::optional<TestResult> read_result(const train::RunDirectory& run,
                                      const OpenOptions& options) {
  auto record = run.read_result();
  if (record.empty()) return std::nullopt;
  if (!tasks::Evaluation::is_in(record) && record.contains(kHash)) {
    return test_again(run, record, options);
  }
  try {
    auto evaluation = tasks::Evaluation::from_json(record);
    expect_parts(record);
    auto audit = record.value(kAudit, json());
    return TestResult{std::move(evaluation), std::move(audit),
                      std::move(record)};
  } catch (const DataError& error) {
    throw run.result_error(error.what());
  }
}

}  // namespace propagator::run
