#include "propagator/run/comparison.h"

#include <algorithm>
#include <set>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/process.h"
#include "propagator/core/version.h"
#include "propagator/report/report.h"
#include "propagator/run/test.h"
#include "propagator/train/history.h"
#include "propagator/train/run_directory.h"

namespace propagator::run {
namespace {

using nlohmann::json;

struct ComparedRun {
  std::string name;
  std::unique_ptr<Experiment> experiment;
  TestResult result;
  train::History history;
};

ComparedRun read(const fs::path& path) {
  const auto directory = train::RunDirectory::open(path);
  auto experiment = std::make_unique<Experiment>(directory.read_config());
  auto result = read_result(directory);
  if (!result) {
    throw FileError(
        fmt::format("{} has no result.json", path.string()),
        "its training is not finished: `propagator resume` goes on with it");
  }
  return {experiment->run().name, std::move(experiment), std::move(*result),
          train::read_history(directory.metrics())};
}

// Runs of one name in different folders are told apart by a number.
void make_names_unique(std::vector<ComparedRun>& runs) {
  std::set<std::string> taken;
  for (auto& run : runs) {
    const auto name = run.name;
    for (int n = 2; !taken.insert(run.name).second; ++n) {
      run.name = fmt::format("{} ({})", name, n);
    }
  }
}

// A value of result.json, "-" if it has none.
std::string cell(const json& result, const char* key) {
  if (!result.contains(key)) return "-";
  const auto& value = result.at(key);
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? fmt::format("{:.1f}", value.get<double>())
                                 : value.dump();
}

report::Table number_table(const std::vector<ComparedRun>& runs) {
  // Plates of other lengths show other frames: a column for every name.
  std::vector<std::string> names;
  for (const auto& run : runs) {
    for (const auto& metric : run.result.evaluation.metrics) {
      if (std::ranges::find(names, metric.name) == names.end()) {
        names.push_back(metric.name);
      }
    }
  }
  std::vector<std::string> header{"run", "mode"};
  header.insert(header.end(), names.begin(), names.end());
  for (const char* name : {"leaks", "parameters", "training (s)", "device",
                           "machine", "seed", "code"}) {
    header.push_back(name);
  }
  report::Table table(header);
  for (const auto& run : runs) {
    const auto& metrics = run.result.evaluation.metrics;
    std::vector<std::string> cells{run.name, run.experiment->task().mode()};
    for (const auto& name : names) {
      const auto metric =
          std::ranges::find(metrics, name, &tasks::Metric::name);
      cells.push_back(
          metric == metrics.end() ? "-" : report::scientific(metric->value));
    }
    cells.push_back(
        run.result.audit.is_null() ? "-" : cell(run.result.audit, "leaks"));
    for (const char* key :
         {"parameters", "training_seconds", "device", "machine", "seed"}) {
      cells.push_back(cell(run.result.record, key));
    }
    cells.push_back(code_text(cell(run.result.record, "code")));
    table.row(cells);
  }
  return table;
}

// The keys whose values are not the same everywhere, labels apart; a key that a
// run's model does not have is "-".
report::Table configuration_table(const std::vector<ComparedRun>& runs) {
  std::vector<std::string> header{"key"}, keys;
  std::set<std::string> seen;
  for (const auto& run : runs) {
    header.push_back(run.name);
    for (const auto& field : run.experiment->schema().fields()) {
      if (field.role == config::Role::kLabel) continue;
      if (seen.insert(field.path).second) keys.push_back(field.path);
    }
  }
  report::Table table(header);
  for (const auto& key : keys) {
    std::vector<std::string> cells{key};
    std::set<std::string> values;
    for (const auto& run : runs) {
      const auto* field = run.experiment->schema().find(key);
      cells.push_back(field != nullptr ? field->get() : "-");
      values.insert(cells.back());
    }
    if (values.size() > 1) table.row(cells);
  }
  return table;
}

// Puts a run's first curve to those along the same axis.
void add_curve(const ComparedRun& run, std::vector<report::LinePlot>& plots) {
  auto plot = run.result.evaluation.curves;
  if (plot.series.empty()) return;
  auto series = plot.series.front();
  series.name = run.name;
  auto same = std::ranges::find_if(plots, [&](const report::LinePlot& other) {
    return other.x.label == plot.x.label && other.y.label == plot.y.label;
  });
  if (same == plots.end()) {
    plot.series.clear();
    plot.events.clear();  // they may differ
    same = plots.insert(plots.end(), plot);
  }
  same->series.push_back(std::move(series));
}

void draw_curves(const std::vector<ComparedRun>& runs, report::Report& report) {
  report::BarChart bars;
  report::LinePlot loss{.title = "Validation loss",
                        .x = {.label = "step"},
                        .y = {.label = "loss", .log = true}};
  std::vector<report::LinePlot> curves;  // one for all along the same axis
  for (const auto& run : runs) {
    const auto& metric = run.result.evaluation.metrics.front();
    bars.y = {.label = metric.name, .log = true};
    bars.categories.push_back(run.name);
    if (bars.bars.empty()) bars.bars.emplace_back();
    bars.bars[0].values.push_back(metric.value);
    add_curve(run, curves);
    const auto& validation = run.history.validation;
    if (!validation.step.empty()) {
      loss.series.push_back({run.name, validation.step, validation.loss});
    }
  }
  report.figure("metric", bars,
                "The first number of the table; modes are in the table.");
  for (size_t n = 0; n < curves.size(); ++n) {
    report.figure(
        n == 0 ? "curves" : fmt::format("curves-{}", n + 1), curves[n],
        curves.size() == 1
            ? "The test of every run."
            : fmt::format("The test of the runs along {}.", curves[n].x.label));
  }
  if (!loss.series.empty()) {
    report.figure("loss", loss,
                  "The loss on the validation cases during training. Losses "
                  "with different weights, terms or masks do not compare.");
  }
}

}  // namespace

fs::path write_comparison(const std::vector<fs::path>& paths,
                          const fs::path& folder) {
  std::vector<ComparedRun> runs;
  for (const auto& path : paths) runs.push_back(read(path));
  for (const auto& run : runs) {
    const auto& task = run.experiment->run().task;
    if (task != runs[0].experiment->run().task) {
      throw UsageError(fmt::format(
          "expected runs of one task, got {} ({}) and {} ({})", runs[0].name,
          runs[0].experiment->run().task, run.name, task));
    }
  }
  make_names_unique(runs);
  report::Report report(
      folder, "report.html",
      fmt::format("{}: {} runs", runs[0].experiment->run().task, runs.size()),
      "Comparison");
  report.section("Numbers");
  report.table(number_table(runs));
  report.section("Curves");
  draw_curves(runs, report);
  report.section("Configurations");
  const auto differences = configuration_table(runs);
  if (differences.size() == 0) {
    report.text("The configurations are the same.");
  } else {
    report.text("The keys in which the runs differ.");
    report.table(differences);
  }
  report.section("Reproduce it");
  std::string command = "propagator report";
  for (const auto& path : paths) {
    command += fmt::format(" {}", shell_word(path.string()));
  }
  report.verbatim(
      fmt::format("{} --out {}", command, shell_word(folder.string())));
  return report.write();
}

}  // namespace propagator::run
