#include "propagator/run/test.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/version.h>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/machine.h"
#include "propagator/core/version.h"
#include "propagator/explain/leak_audit.h"
#include "propagator/nn/init.h"
#include "propagator/tasks/explainable.h"

namespace propagator::run {
namespace {

using nlohmann::json;

constexpr const char* kAudit = "leak_audit";
constexpr const char* kHash = "config_sha256";  // in all results of ours
constexpr const char* kSeconds = "training_seconds";

json provenance(const Experiment& experiment, const Runtime& runtime) {
  return {{kHash, experiment.hash()},
          {"code", fmt::format("{} {}", kVersion, kCommit)},
          {"seed", experiment.run().seed},
          {"device", runtime.device_name()},
          {"precision", config::name_of(runtime.precision)},
          {"threads", at::get_num_threads()},
          {"machine", machine_name(runtime.device)},
          {"libtorch", TORCH_VERSION}};
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
  auto result = test_model(run.experiment(), run.model(), run.runtime(),
                           data::Split::kTest);
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
  result.record = result.evaluation.to_json();
  if (auto* explainable = dynamic_cast<tasks::Explainable*>(&task)) {
    if (const auto subject = explainable->audit_subject(model)) {
      result.audit =
          explain::audit_leaks(*subject, experiment.run().seed).to_json();
      result.record[kAudit] = result.audit;
    }
  }
  result.record["mode"] = task.mode();
  result.record["parameters"] = nn::parameter_count(model);
  result.record.update(provenance(experiment, runtime));
  return result;
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
    throw DataError(
        fmt::format("{}: {}", run.result().string(), error.what()),
        fmt::format("`propagator eval {} --out {} --force` writes it again",
                    run.path().string(), run.result().string()));
  }
}

}  // namespace propagator::run
