#include "propagator/run/run_report.h"

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/progress.h"
#include "propagator/explain/explanation.h"
#include "propagator/train/history.h"

namespace propagator::run {
namespace {

using nlohmann::json;

// A value of result.json as a reader wants it.
std::string shown(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string title_of(const run::Experiment& experiment) {
  return fmt::format("{}: {}", experiment.run().task, experiment.run().name);
}

void add_result(const run::Experiment& experiment, const json& result,
                report::Report& report) {
  report.section("Result");
  if (result.empty()) {
    report.text(
        "This run has no result yet: its training is not finished. What "
        "follows is a checkpoint.");
    return;
  }
  const auto summary = experiment.task().summary(result);
  report.table(summary.table);
  for (const auto& remark : summary.remarks) report.text(remark);
  if (result.contains("leak_audit")) {
    const auto& audit = result.at("leak_audit");
    report.verdict(audit.at("leaks") == 0,
                   "leak audit: " + shown(audit.at("verdict")));
  }
  std::vector<std::pair<std::string, std::string>> facts;
  for (const auto& [key, name] :
       {std::pair{"mode", "mode"}, std::pair{"network", "network"},
        std::pair{"parameters", "parameters"}, std::pair{"steps", "steps"},
        std::pair{"device", "device"}, std::pair{"precision", "precision"},
        std::pair{"threads", "threads"}, std::pair{"machine", "machine"},
        std::pair{"libtorch", "libtorch"}, std::pair{"seed", "seed"},
        std::pair{"code", "code"}}) {
    if (result.contains(key)) facts.emplace_back(name, shown(result.at(key)));
  }
  if (result.contains("training_seconds")) {
    facts.emplace_back("training",
                       duration_text(result.at("training_seconds")));
  }
  report.facts(facts);
}

void add_reproduction(const json& result, const json& explanation,
                      const train::RunDirectory& run, report::Report& report) {
  report.section("Reproduce it");
  report.text(
      "The configuration below is complete. Saved as experiment.yaml it "
      "trains the same model again; on the same machine, with the same "
      "number of threads, it ends in the same bits.");
  const auto path = run.path().string();
  report.verbatim(fmt::format(
      "propagator train experiment.yaml --name again\n"
      "propagator eval {0}\n"
      "{1}"
      "propagator report {0}",
      path,
      explanation.empty() ? "" : fmt::format("propagator explain {}\n", path)));
  if (result.contains("config_sha256")) {
    report.text("SHA-256 of what decides the numbers: " +
                shown(result.at("config_sha256")));
  }
  report.folded("Configuration", read_file(run.config()));
}

}  // namespace

json read_result(const run::Experiment& experiment,
                 const train::RunDirectory& run) {
  const auto result = run.read_result();
  if (result.empty()) return result;
  const auto& task = experiment.task();
  try {
    task.summary(result);
    task.metrics(result);
    task.curves(result);
  } catch (const json::exception& error) {
    throw DataError(
        fmt::format("{}: {}", run.result().string(), error.what()),
        fmt::format("`propagator eval {} --out {} --force` writes it again",
                    run.path().string(), run.result().string()));
  }
  return result;
}

RunReport write_run_report(const run::Experiment& experiment,
                           torch::nn::Module& model, const Runtime& runtime,
                           const json& result, const std::string& weights,
                           const train::RunDirectory& run) {
  auto& task = experiment.task();
  report::Report report(run.path(), "report.html", title_of(experiment),
                        fmt::format("{} model", task.mode()));
  add_result(experiment, result, report);
  const auto history = train::read_history(run.metrics());
  if (!history.empty()) {
    report.section("Training");
    draw_history(history, report);
  }
  report.section("Test");
  report.text(fmt::format("Computed from the best weights of {}, on {} in {}.",
                          weights, runtime.device_name(),
                          config::name_of(runtime.precision)));
  {
    // The fields as the test computes them; explanations in full precision.
    const PrecisionScope scope(runtime);
    task.draw(model, result, experiment.report().cases, report);
  }
  const auto numbers =
      explain::explain_model(task, model, experiment.run().seed,
                             explain::affordable_work(runtime.device), report);
  add_reproduction(result, numbers, run, report);
  if (!numbers.empty()) {
    write_file_atomically(run.path() / "explain.json", numbers.dump(2) + "\n");
  }
  return {report.write(), numbers};
}

RunReport write_explanation(const run::Experiment& experiment,
                            torch::nn::Module& model, double most_work,
                            const train::RunDirectory& run) {
  report::Report report(run.path(), "explain.html", title_of(experiment),
                        "What the model learned");
  const auto numbers = explain::explain_model(
      experiment.task(), model, experiment.run().seed, most_work, report);
  write_file_atomically(run.path() / "explain.json", numbers.dump(2) + "\n");
  return {report.write(), numbers};
}

}  // namespace propagator::run
