#include "propagator/run/run_report.h"

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/process.h"
#include "propagator/core/progress.h"
#include "propagator/core/version.h"
#include "propagator/run/history_figures.h"
#include "propagator/tasks/drawing.h"
#include "propagator/tasks/explainable.h"

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

// What result.json says beside the test itself.
std::vector<std::pair<std::string, std::string>> facts_of(const json& record) {
  std::vector<std::pair<std::string, std::string>> facts;
  for (const char* key :
       {"mode", "network", "parameters", "steps", "device", "precision",
        "threads", "machine", "libtorch", "seed"}) {
    if (record.contains(key)) facts.emplace_back(key, shown(record.at(key)));
  }
  if (record.contains("code")) {
    facts.emplace_back("code", code_text(shown(record.at("code"))));
  }
  if (record.contains("training_seconds")) {
    facts.emplace_back("training",
                       duration_text(record.at("training_seconds")));
  }
  return facts;
}

// The most telling numbers, beside what a paper claims for them.
std::vector<std::pair<std::string, std::string>> tiles_of(
    const std::vector<tasks::Metric>& metrics) {
  constexpr size_t kTiles = 4;
  std::vector<std::pair<std::string, std::string>> tiles;
  for (const auto& metric : metrics) {
    if (tiles.size() == kTiles) break;
    auto name = metric.name;
    if (metric.published) {
      name += fmt::format(" (published: {:.3g})", *metric.published);
    }
    tiles.emplace_back(name, fmt::format("{:.3g}", metric.value));
  }
  return tiles;
}

void add_result(const TestResult* result, report::Report& report) {
  report.section("Result");
  if (result == nullptr) {
    report.text(
        "This run has no result yet: its training is not finished. What "
        "follows is a checkpoint.");
    return;
  }
  const auto& evaluation = result->evaluation;
  if (!evaluation.headline.empty()) report.headline(evaluation.headline);
  report.tiles(tiles_of(evaluation.metrics));
  report.lead_place();
  report.table(evaluation.table);
  if (const auto what = verdict(*result); !what.empty()) report.text(what);
  for (const auto& remark : evaluation.remarks) report.text(remark);
  if (!result->audit.is_null()) {
    report.verdict(result->audit.at("leaks") == 0,
                   "leak audit: " + shown(result->audit.at("verdict")));
  }
  report.facts(facts_of(result->record));
}

void add_problem(const tasks::Task& task, report::Report& report) {
  report.section("Problem");
  if (const auto* drawing = dynamic_cast<const tasks::Drawing*>(&task)) {
    drawing->state_problem(report);
  }
}

// The figures of a task that draws; else its curves.
void draw_test(tasks::Task& task, torch::nn::Module& model,
               const TestResult* result, int64_t cases,
               report::Report& report) {
  const auto* evaluation = result == nullptr ? nullptr : &result->evaluation;
  if (auto* drawing = dynamic_cast<tasks::Drawing*>(&task)) {
    drawing->draw(model, evaluation, cases, report);
  } else if (evaluation != nullptr && !evaluation->curves.series.empty()) {
    report.lead("curves", evaluation->curves, "The result of the test.");
  }
}

void add_reproduction(const TestResult* result, const json& explanation,
                      const train::RunDirectory& run, report::Report& report) {
  report.section("Reproduce it");
  report.text(
      "The configuration below is complete. Saved as experiment.yaml it "
      "trains the same model again; on the same machine, with the same "
      "number of threads, it ends in the same bits.");
  const auto path = shell_word(run.path().string());
  report.verbatim(fmt::format(
      "propagator train experiment.yaml --name again\n"
      "propagator eval {0}\n"
      "{1}"
      "propagator report {0}",
      path,
      explanation.empty() ? "" : fmt::format("propagator explain {}\n", path)));
  if (result != nullptr) {
    report.text("SHA-256 of what decides the numbers: " +
                shown(result->record.at("config_sha256")));
  }
  report.folded("Configuration", read_file(run.config()));
}

// What another's result.json lacks is found where it is shown.
void show_result(const train::RunDirectory& run,
                 const std::function<void()>& show) {
  try {
    show();
  } catch (const json::exception& error) {
    throw run.result_error(fmt::format("not of ours: {}", error.what()));
  }
}

}  // namespace

RunReport write_run_report(const run::Experiment& experiment,
                           torch::nn::Module& model, const Runtime& runtime,
                           const TestResult* result, const std::string& weights,
                           const train::RunDirectory& run) {
  const RuntimeScope threads(runtime, experiment.run().threads);
  auto& task = experiment.task();
  report::Report report(run.path(), "report.html", title_of(experiment),
                        fmt::format("{} model", task.mode()));
  add_problem(task, report);
  show_result(run, [&] { add_result(result, report); });
  report.section("Test");
  report.text(fmt::format("Computed from the best weights of {}, on {} in {}.",
                          weights, runtime.device_name(),
                          config::name_of(runtime.precision)));
  {
    // The fields as the test computes them; explanations in full precision.
    const PrecisionScope scope(runtime);
    show_result(run, [&] {
      draw_test(task, model, result, experiment.report().cases, report);
    });
  }
  const auto history = train::read_history(run.metrics());
  if (!history.empty()) {
    report.section("Training");
    draw_history(history, report);
  }
  const auto numbers = explain::explain_model(
      task, model, experiment.run().seed,
      {.max_work = explain::affordable_work(runtime.device),
       .step = result == nullptr ? nullptr : result->step.get()},
      report);
  show_result(run, [&] { add_reproduction(result, numbers, run, report); });
  if (!numbers.empty()) {
    write_file_atomically(run.path() / "explain.json", numbers.dump(2) + "\n");
  }
  return {report.write(), numbers};
}

bool can_be_explained(const Run& run) {
  auto* task = dynamic_cast<tasks::Explainable*>(&run.experiment().task());
  return task != nullptr && (task->propagator_subject(run.model()) ||
                             task->audit_subject(run.model()));
}

RunReport write_explanation(const Run& run,
                            const explain::ExplainOptions& options) {
  const auto& experiment = run.experiment();
  const RuntimeScope threads(run.runtime(), experiment.run().threads);
  const auto& folder = run.directory().path();
  report::Report report(folder, "explain.html", title_of(experiment),
                        "What the model learned");
  const auto numbers = explain::explain_model(
      experiment.task(), run.model(), experiment.run().seed, options, report);
  write_file_atomically(folder / "explain.json", numbers.dump(2) + "\n");
  return {report.write(), numbers};
}

}  // namespace propagator::run
