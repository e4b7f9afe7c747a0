#include <algorithm>

#include "propagator/cli/commands.h"
#include "propagator/cli/finish.h"
#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"
#include "propagator/report/gnuplot.h"
#include "propagator/report/table.h"
#include "propagator/train/history.h"

namespace propagator::cli {
namespace {

using nlohmann::json;

struct ReproduceArguments {
  std::vector<std::string> rows;
  std::string runs = "runs/reproduce", out = "results";
  bool own_out = false;  // --out was given
  int64_t seeds = 0;     // 0: as many as the row says
  Overrides overrides;
};

struct Row {
  std::string name;  // "forecast/base-block"
  fs::path file;
};

// The configurations that `asked` means: one, or of a task ("locate", or a part
// of it, "locate/lecture-*") all that have a band.
std::vector<Row> find_rows(const std::string& asked) {
  const bool is_part =
      asked.ends_with('*') && asked.find('/') != std::string::npos;
  const auto begin = is_part ? asked.substr(0, asked.size() - 1) : asked + "/";
  std::vector<Row> rows;
  std::vector<std::string> names;
  for (const auto& [name, file] : known_configs()) {
    names.push_back(name);
    if (name == asked) return {{name, file}};
    if (!name.starts_with(begin)) continue;
    const run::Experiment experiment(config::Document::from_file(file));
    if (experiment.reproduce().max > 0) rows.push_back({name, file});
  }
  if (rows.empty()) {
    throw UsageError(
        fmt::format("no row {}", asked),
        config::did_you_mean(asked, names, "`propagator list` shows them"));
  }
  return rows;
}

// Those of all that was asked for, each once. Figures have rows of one task.
std::vector<Row> find_rows(const std::vector<std::string>& asked) {
  const auto task_of = [](const std::string& row) {
    return row.substr(0, row.find('/'));
  };
  std::vector<Row> rows;
  for (const auto& one : asked) {
    for (const auto& row : find_rows(present_config_name(one))) {
      if (std::ranges::find(rows, row.name, &Row::name) != rows.end()) continue;
      if (!rows.empty() && task_of(row.name) != task_of(rows[0].name)) {
        throw UsageError(
            fmt::format("{} and {} are of two tasks", rows[0].name, row.name),
            "one task at a time");
      }
      rows.push_back(row);
    }
  }
  return rows;
}

std::string run_name(const Row& row, int64_t seed) {
  return fmt::format("{}-seed-{}", row.file.stem().string(), seed);
}
fs::path run_path(const ReproduceArguments& o, const Row& row, int64_t seed) {
  return fs::path(o.runs) / run_name(row, seed);
}

// A row with other settings is no longer the row, and must not take its place.
void expect_the_row(const ReproduceArguments& o, const Row& row,
                    const run::Experiment& experiment) {
  if (o.own_out) return;
  auto where = o.overrides;
  where.assignments.clear();
  auto document = config::Document::from_file(row.file);
  where.apply_to(document);
  if (run::Experiment(document).hash() == experiment.hash()) return;
  throw UsageError(
      fmt::format("with -s {} this is not the row {}",
                  fmt::join(o.overrides.assignments, " -s "), row.name),
      "give it folders of its own: --out FOLDER --runs FOLDER");
}

// Trains and tests a row with one seed, or takes up what is there. The exit
// code, and the result if it is 0.
std::pair<int, json> run_seed(const ReproduceArguments& o, const Row& row,
                              int64_t seed) {
  auto document = config::Document::from_file(row.file);
  o.overrides.apply_to(document);
  document.set("seed", std::to_string(seed), "--seeds");
  document.set("name", run_name(row, seed), "the row's name");
  run::Experiment experiment(document);
  o.overrides.limit_time_of(experiment);
  const auto path = run_path(o, row, seed);
  if (fs::exists(path)) {
    auto run = train::RunDirectory::open(path);
    const run::Experiment there(run.read_config());
    if (there.hash() != experiment.hash()) {
      throw UsageError(
          fmt::format("{} is of another configuration", path.string()),
          "remove it, or give another folder with --runs");
    }
    const auto result = run.read_result();
    if (!result.empty()) {
      log::info("{} is there already", path.string());
      return {0, result};
    }
    run.lock();
    const int status = resume_run(std::move(run), experiment, "", false);
    if (status != 0) return {status, {}};
  } else {
    const auto create = [&] {
      return train::RunDirectory::create(path, /*force=*/false,
                                         experiment.yaml());
    };
    const int status = train_and_report(experiment, create, "", false);
    if (status != 0) return {status, {}};
  }
  return {0, train::RunDirectory::open(path).read_result()};
}

std::string command_of(const ReproduceArguments& o, const Row& row) {
  auto text = fmt::format("propagator reproduce {}", row.name);
  if (o.seeds != 0) text += fmt::format(" --seeds {}", o.seeds);
  const auto add = [&](const char* name,
                       const std::optional<std::string>& value) {
    if (value) text += fmt::format(" {} {}", name, *value);
  };
  add("--seed", o.overrides.seed);
  add("--device", o.overrides.device);
  add("--precision", o.overrides.precision);
  for (const auto& assignment : o.overrides.assignments) {
    text += fmt::format(" -s {}", assignment);
  }
  return text;
}

// Which of the results, one a seed, has the median.
size_t median_of(const train::Task& task, const std::vector<json>& results) {
  std::vector<std::pair<double, size_t>> values;
  for (size_t n = 0; n < results.size(); ++n) {
    values.emplace_back(task.metrics(results[n]).front().value, n);
  }
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2].second;
}

// The row's file under results/: the median over seeds beside the published
// number, and the whole result of the seed that has it.
json summarise(const ReproduceArguments& o, const Row& row,
               const run::Experiment& experiment,
               const std::vector<json>& results, const json& typical) {
  const auto& task = experiment.task();
  std::vector<double> seeds;
  int64_t failed = 0;
  double seconds = 0;
  for (const auto& result : results) {
    seeds.push_back(task.metrics(result).front().value);
    failed += task.failed(result);
    seconds += result.at("training_seconds").get<double>();
  }
  const auto [least, largest] = std::ranges::minmax(seeds);
  const auto metric = task.metrics(typical).front();
  const double stated = experiment.reproduce().published;
  const auto document_value =
      stated > 0 ? std::optional(stated) : task.document_value();
  return {{"row", row.name},
          {"mode", task.mode()},
          {"metric", metric.name},
          {"value", metric.value},
          {"spread", largest - least},
          {"document", document_value ? json(*document_value) : nullptr},
          {"band", {0, experiment.reproduce().max}},
          {"seeds", seeds},
          {"failed", failed},
          {"device", typical.at("device")},
          {"precision", typical.at("precision")},
          {"seconds", seconds},
          {"command", command_of(o, row)},
          {"config_sha256", typical.at("config_sha256")},
          {"code", typical.at("code")},
          {"result", typical}};
}

// What the best weights of a finished run answer. It may have lost them.
std::optional<report::FieldMaps> maps_of(const ReproduceArguments& o,
                                         const fs::path& run) {
  Overrides where;
  where.device = o.overrides.device;
  where.threads = o.overrides.threads;
  try {
    const auto [experiment, runtime, model] =
        load_for_pages(run.string(), "", where, Weights::kBest);
    const PrecisionScope scope(runtime);
    return experiment->task().maps(*model);
  } catch (const RuntimeError& error) {
    log::warn("no picture of {}: {}", run.string(), error.what());
    return std::nullopt;
  }
}

// The figures of the rows, beside their files.
void draw_rows(const ReproduceArguments& o, const train::Task& task,
               const std::vector<train::ReproducedRow>& rows) {
  report::FigureFolder folder(fs::path(o.out) / "figures");
  const auto figures = task.draw_rows(rows);
  for (const auto& [name, figure, caption] : figures) folder.add(name, figure);
  folder.draw();
  const char* ending = report::FigureFolder::can_draw() ? ".svg" : ".gp";
  for (const auto& [name, figure, caption] : figures) {
    log::info("written {}: {}", (folder.path() / (name + ending)).string(),
              caption);
  }
}

// "5, 2 of them failed"
std::string seeds_text(const json& summary) {
  const auto failed = summary.at("failed").get<int64_t>();
  auto text = fmt::format("{}", summary.at("seeds").size());
  if (failed > 0) text += fmt::format(", {} of them failed", failed);
  return text;
}

int reproduce(const ReproduceArguments& o) {
  report::Table table(
      {"row", "mode", "metric", "ours", "published", "band", "seeds"});
  if (fs::exists(o.out) && !fs::is_directory(o.out)) {
    throw UsageError(fmt::format("--out: {} is not a folder", o.out));
  }
  bool all_inside = true;
  std::vector<train::ReproducedRow> rows;
  std::unique_ptr<run::Experiment> last;
  for (const auto& row : find_rows(o.rows)) {
    auto document = config::Document::from_file(row.file);
    o.overrides.apply_to(document);
    last = std::make_unique<run::Experiment>(document);
    const auto& experiment = *last;
    expect_the_row(o, row, experiment);
    const double max = experiment.reproduce().max;
    std::vector<json> results;
    const int64_t seeds = o.seeds > 0 ? o.seeds : experiment.reproduce().seeds;
    const int64_t first = experiment.run().seed;
    for (int64_t n = 0; n < seeds; ++n) {
      auto [status, result] = run_seed(o, row, first + n);
      if (status != 0) return status;
      results.push_back(std::move(result));
    }
    const size_t median = median_of(experiment.task(), results);
    const auto summary =
        summarise(o, row, experiment, results, results[median]);
    const auto file = fs::path(o.out) / (row.name + ".json");
    const auto run = run_path(o, row, first + static_cast<int64_t>(median));
    rows.push_back({row.file.stem().string(), summary,
                    train::read_history(run / "metrics.jsonl"),
                    [&o, run] { return maps_of(o, run); }});
    write_file_atomically(file, summary.dump(2) + "\n");
    const double value = summary.at("value");
    const bool inside = max == 0 || value <= max;
    all_inside = all_inside && inside;
    table.row({row.name, summary.at("mode"), summary.at("metric"),
               report::scientific(value),
               summary.at("document").is_null()
                   ? "-"
                   : report::scientific(summary.at("document")),
               max == 0 ? "-"
                        : fmt::format("{} {:.2e}",
                                      inside ? "within" : "outside", max),
               seeds_text(summary)});
    log::info("written {}", file.string());
  }
  fmt::print("\n{}", table.text());
  draw_rows(o, last->task(), rows);
  return static_cast<int>(all_inside ? ExitCode::kOk : ExitCode::kOutsideBand);
}

}  // namespace

void add_reproduce(CLI::App& app, Action& action) {
  const auto o = std::make_shared<ReproduceArguments>();
  auto* verb = app.add_subcommand(
      "reproduce", "Train and test rows of a publication, beside its numbers");
  verb->footer(
      "A row is a configuration with `reproduce.max`, the largest value of "
      "its metric that\ncounts as reproduced; a row outside it ends the "
      "program with 6. What is trained already\nis not trained again, and a "
      "row that was stopped goes on.\nOUT has TASK/ROW.json of each row, and "
      "in OUT/figures several rows "
      "side by side; of task\nsolve also the fields of each row's median seed "
      "and "
      "their errors, a picture a problem.\n"
      "Examples:\n"
      "  propagator reproduce forecast/base-block --device cuda --precision "
      "tf32\n"
      "  propagator reproduce forecast --seeds 3\n"
      "  propagator reproduce 'locate/lecture-*'      # its four curves\n"
      "  propagator reproduce solve/wave-kan solve/wave-spformer-rope --device "
      "cuda");
  verb->add_option("rows", o->rows,
                   "A task, some of its rows, or the beginning of some: "
                   "TASK/PART*")
      ->required();
  verb->add_option("--seeds", o->seeds,
                   "Seeds to train each row with, from --seed on, if not as "
                   "many as it says")
      ->check(CLI::Range(1, 1000));
  verb->add_option("--runs", o->runs, "Folder of the runs")
      ->capture_default_str();
  const auto* out = verb->add_option("--out", o->out, "Folder of the results")
                        ->capture_default_str();
  o->overrides.add_to(*verb, Overrides::Subject::kNewRun);
  verb->callback([o, out, &action] {
    o->own_out = out->count() > 0;
    action = [o] { return reproduce(*o); };
  });
}

}  // namespace propagator::cli
