#include "propagator/run/reproduce.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"
#include "propagator/core/machine.h"
#include "propagator/core/version.h"
#include "propagator/report/gnuplot.h"
#include "propagator/run/named_rows.h"
#include "propagator/run/train.h"
#include "propagator/tasks/drawing.h"
#include "propagator/train/history.h"

namespace propagator::run {
namespace {

using nlohmann::json;

// Between the seed of a run and that of its second test.
constexpr int64_t kSecondTest = 1'000'000;

std::string run_name(const Row& row, int64_t seed) {
  return fmt::format("{}-seed-{}", row.file.stem().string(), seed);
}

config::Document document_of(const Row& row, const ReproduceRequest& request) {
  auto document = config::Document::from_file(row.file);
  if (request.where) request.where(document);
  if (request.how) request.how(document);
  return document;
}

// The row with all that was asked for. UsageError if that makes another row,
// which must not take its place.
std::unique_ptr<Experiment> experiment_of(const Row& row,
                                          const ReproduceRequest& request) {
  auto document = document_of(row, request);
  auto as_it_is = std::make_unique<Experiment>(document);
  if (!request.settings) return as_it_is;
  request.settings(document);
  auto experiment = std::make_unique<Experiment>(document);
  if (request.own_out || experiment->hash() == as_it_is->hash()) {
    return experiment;
  }
  throw UsageError(
      fmt::format("with{} this is not the row {}", request.arguments, row.name),
      "give it folders of its own: --out FOLDER --runs FOLDER");
}

// One training of a row.
struct Seed {
  fs::path folder;
  config::Document document;
  bool retrain = false;  // what is there is not of this program or machine
};

// "0.1.0 c5750ba090ac on NVIDIA H200 (cuda, tf32)"
std::string computer_text(const json& computed_by) {
  if (computed_by.empty()) return "an older program";
  const auto part = [&](const char* key) {
    return computed_by.at(key).get<std::string>();
  };
  return fmt::format("{} on {} ({}, {})", part("code"), part("machine"),
                     part("device"), part("precision"));
}

// What has computed a run so far: its training and its test.
json computers_of(const train::RunDirectory& run) {
  const auto record = run.read_result();
  if (!record.empty()) {
    auto all = record.value(train::kTrainedBy, json::array());
    json& test = all.emplace_back(json::object());
    for (const char* key : {"code", "machine", "device", "precision"}) {
      test[key] = record.value(key, "-");
    }
    const auto device = test.at("device").get<std::string>();
    test["device"] = device.substr(0, device.find(':'));
    return all;
  }
  const auto checkpoints = train::list_checkpoints(run.checkpoints());
  return checkpoints.empty()
             ? json::array()
             : train::trained_by(train::load_state(checkpoints.back()));
}

// UsageError if what is there must neither be taken for this seed nor be
// replaced.
Seed plan_seed(const ReproduceRequest& request, const Row& row, int64_t seed) {
  auto document = document_of(row, request);
  if (request.settings) request.settings(document);
  document.set("seed", std::to_string(seed), "--seeds");
  document.set("name", run_name(row, seed), "the row's name");
  Seed planned{.folder = request.runs / run_name(row, seed),
               .document = document};
  const Experiment experiment(document);
  if (!fs::exists(planned.folder)) return planned;
  const auto there = train::RunDirectory::open(planned.folder);
  if (Experiment(there.read_config()).hash() != experiment.hash()) {
    throw UsageError(
        fmt::format("{} is of another configuration", planned.folder.string()),
        "remove it, or give another folder with --runs");
  }
  const auto now = computed_by(experiment.make_runtime());
  for (const auto& computer : computers_of(there)) {
    if (computer == now) continue;
    if (!request.retrain) {
      throw UsageError(
          fmt::format("{} is of {}, and this is {}: they are not one row",
                      planned.folder.string(), computer_text(computer),
                      computer_text(now)),
          "go on with that one, train such seeds again with --retrain, or "
          "give another folder with --runs");
    }
    planned.retrain = true;
  }
  return planned;
}

// Nothing if it was asked to stop.
std::optional<TestResult> run_seed(const ReproduceRequest& request,
                                   const Seed& seed, Observer& observer) {
  const auto& folder = seed.folder;
  if (seed.retrain) log::info("{}: training it again", folder.string());
  if (seed.retrain || !fs::exists(folder)) {
    Experiment experiment(seed.document);
    if (request.time_limit) experiment.limit_time(*request.time_limit);
    return train(experiment, folder, seed.retrain, observer).result;
  }
  const auto there = train::RunDirectory::open(folder);
  if (auto result = read_result(there, {.change = request.where})) {
    log::info("{} is there already", folder.string());
    return result;
  }
  return resume(folder,
                {.change = request.where, .time_limit = request.time_limit},
                observer)
      .result;
}

// UsageError if the test has no metric of that name, which the key has asked
// for.
const tasks::Metric& metric_named(const std::string& name, const char* key,
                                  const TestResult& result) {
  const auto& metrics = result.evaluation.metrics;
  const auto found = std::ranges::find(metrics, name, &tasks::Metric::name);
  if (found != metrics.end()) return *found;
  std::vector<std::string> names;
  for (const auto& metric : metrics) names.push_back(metric.name);
  throw UsageError(fmt::format("{}: the test has no metric {}", key, name),
                   fmt::format("it has {}", fmt::join(names, "; ")));
}

// The metric that the row is about.
const tasks::Metric& metric_of(const Experiment& experiment,
                               const TestResult& result) {
  const auto& name = experiment.reproduce().metric;
  return name.empty() ? result.evaluation.metrics.front()
                      : metric_named(name, "reproduce.metric", result);
}

// Which of the values, one a seed, is the median: of two in the middle the
// lesser, so that it is a value of one run.
size_t median_of(const std::vector<double>& values) {
  std::vector<std::pair<double, size_t>> sorted;
  for (const double value : values) sorted.emplace_back(value, sorted.size());
  std::ranges::sort(sorted);
  return sorted[(sorted.size() - 1) / 2].second;
}

std::vector<double> metrics_of(const Experiment& experiment,
                               const std::vector<TestResult>& results) {
  std::vector<double> values;
  for (const auto& result : results) {
    values.push_back(metric_of(experiment, result).value);
  }
  return values;
}

// The metric that the row has a second band for, likewise; null if it has none.
json other_metric(const Experiment& experiment,
                  const std::vector<TestResult>& results) {
  const auto& [name, max] =
      std::tie(experiment.reproduce().also, experiment.reproduce().also_max);
  if (name.empty()) return {};
  std::vector<double> values;
  for (const auto& result : results) {
    values.push_back(metric_named(name, "reproduce.also", result).value);
  }
  return {{"metric", name},
          {"value", values[median_of(values)]},
          {"band", {0, max}},
          {"seeds", values}};
}

// A result.json that was touched may lack it.
double training_seconds(const TestResult& result) {
  const auto found = result.record.find("training_seconds");
  if (found != result.record.end() && found->is_number()) return *found;
  throw DataError("the result.json of a seed has no training_seconds",
                  "train such seeds again with --retrain");
}

json seed_numbers(const TestResult& result) {
  json numbers{{"seed", result.record.at("seed")},
               {"training_seconds", training_seconds(result)}};
  for (const auto& metric : result.evaluation.metrics) {
    numbers["metrics"][metric.name] = metric.value;
  }
  return numbers;
}

// The row's file under results/: the median over seeds beside the paper's
// number, all numbers of every seed, and the whole result of the one that has
// the median.
json summarise(const ReproduceRequest& request, const Row& row,
               const Experiment& experiment,
               const std::vector<TestResult>& results,
               const TestResult& typical) {
  const auto seeds = metrics_of(experiment, results);
  json per_seed;
  int64_t failed = 0;
  double seconds = 0;
  for (const auto& result : results) {
    per_seed.push_back(seed_numbers(result));
    failed += result.evaluation.failed;
    seconds += training_seconds(result);
  }
  const auto [least, largest] = std::ranges::minmax(seeds);
  const auto& metric = metric_of(experiment, typical);
  const double stated = experiment.reproduce().published;
  const auto published = stated > 0 ? std::optional(stated) : metric.published;
  const auto& record = typical.record;
  json summary{{"row", row.name},
               {"mode", experiment.task().mode()},
               {"metric", metric.name},
               {"value", metric.value},
               {"spread", largest - least},
               {"document", published ? json(*published) : nullptr},
               {"band", {0, experiment.reproduce().max}},
               {"seeds", seeds},
               {"per_seed", per_seed},
               {"failed", failed},
               {"device", record.at("device")},
               {"machine", record.at("machine")},
               {"precision", record.at("precision")},
               {"seconds", seconds},
               {"command", fmt::format("propagator reproduce {}{}", row.name,
                                       request.arguments)},
               {"config_sha256", record.at("config_sha256")},
               {"code", record.at("code")},
               {"draft", request.draft},
               {"result", record}};
  if (const auto also = other_metric(experiment, results); !also.is_null()) {
    summary["also"] = also;
  }
  return summary;
}

// What the best weights of a finished run answer. It may have lost them.
std::optional<report::FieldMaps> maps_of(const fs::path& folder,
                                         const Change& where) {
  try {
    const auto run = open(folder, {.change = where, .for_pages = true});
    run.prepare_data();
    const PrecisionScope scope(run.runtime());
    auto* drawing = dynamic_cast<tasks::Drawing*>(&run.experiment().task());
    return drawing == nullptr ? std::nullopt : drawing->maps(run.model());
  } catch (const RuntimeError& error) {
    log::warn("no picture of {}: {}", folder.string(), error.what());
    return std::nullopt;
  }
}

// The figures of the rows, beside their files.
void draw_rows(const fs::path& out, const tasks::Task& task,
               const std::vector<tasks::ReproducedRow>& rows) {
  const auto* drawing = dynamic_cast<const tasks::Drawing*>(&task);
  if (drawing == nullptr) return;
  report::FigureFolder folder(out / "figures");
  const auto figures = drawing->draw_rows(rows);
  for (const auto& [name, figure, caption] : figures) folder.add(name, figure);
  folder.draw();
  const char* ending = report::FigureFolder::can_draw() ? ".svg" : ".gp";
  for (const auto& [name, figure, caption] : figures) {
    log::info("written {}: {}", (folder.path() / (name + ending)).string(),
              caption);
  }
}

struct PlannedRow {
  Row row;
  std::unique_ptr<Experiment> experiment;
  std::vector<Seed> seeds = {};
};

PlannedRow plan_row(const ReproduceRequest& request, const Row& row) {
  PlannedRow planned{.row = row, .experiment = experiment_of(row, request)};
  planned.experiment->expect_metric();  // before hours of training
  const int64_t first = planned.experiment->run().seed;
  const int64_t seeds =
      request.seeds > 0 ? request.seeds : planned.experiment->reproduce().seeds;
  for (int64_t n = 0; n < seeds; ++n) {
    planned.seeds.push_back(plan_seed(request, row, first + n));
  }
  return planned;
}

// The row's metric on test data that nobody has looked at, which another seed
// makes: nothing in a recipe can have been chosen for them.
void add_second_test(const ReproduceRequest& request, const PlannedRow& planned,
                     json& summary) {
  if (!planned.experiment->task().draws_test()) return;
  std::vector<double> values;
  for (const auto& seed : planned.seeds) {
    const auto run = open(seed.folder, {.change = request.where});
    run.prepare_data(run.experiment().run().seed + kSecondTest);
    values.push_back(metric_of(*planned.experiment,
                               test_model(run.experiment(), run.model(),
                                          run.runtime(), data::Split::kTest))
                         .value);
  }
  summary["second_test"] = {
      {"value", values[median_of(values)]},
      {"seeds", values},
      {"data_seed", fmt::format("seed + {}", kSecondTest)}};
}

// Of a metric with its band, of which 0 is none.
bool is_inside(const json& judged) {
  const auto max = judged.at("band")[1].get<double>();
  return max == 0 || judged.at("value").get<double>() <= max;
}

// A row as it was reproduced, and as its figures need it.
struct FinishedRow {
  RowResult result;
  tasks::ReproducedRow drawn;
};

// Nothing if it was asked to stop.
std::optional<FinishedRow> reproduce_row(const ReproduceRequest& request,
                                         const PlannedRow& planned,
                                         Observer& observer) {
  const auto& [row, experiment, seeds] = planned;
  std::vector<TestResult> results;
  for (const auto& seed : seeds) {
    auto result = run_seed(request, seed, observer);
    if (!result) return std::nullopt;
    results.push_back(std::move(*result));
  }
  const size_t median = median_of(metrics_of(*experiment, results));
  auto summary = summarise(request, row, *experiment, results, results[median]);
  add_second_test(request, planned, summary);
  const auto file = request.out / (row.name + ".json");
  write_file_atomically(file, summary.dump(2) + "\n");
  log::info("written {}", file.string());
  const auto folder = seeds[median].folder;
  return FinishedRow{
      {row.name, summary,
       is_inside(summary) &&
           (!summary.contains("also") || is_inside(summary.at("also"))),
       std::ranges::any_of(results, &TestResult::leaks_though_honest)},
      {row.file.stem().string(), summary,
       train::read_history(folder / "metrics.jsonl"),
       [folder, where = request.where] { return maps_of(folder, where); }}};
}

}  // namespace

Reproduced reproduce(const ReproduceRequest& request, Observer& observer) {
  const ObserverScope scope(observer);
  if (fs::exists(request.out) && !fs::is_directory(request.out)) {
    throw UsageError(
        fmt::format("--out: {} is not a folder", request.out.string()));
  }
  std::vector<PlannedRow> plan;
  for (const auto& row : find_rows(request.rows)) {
    plan.push_back(plan_row(request, row));
  }
  expect_a_commit(request.draft);
  Reproduced reproduced;
  std::vector<tasks::ReproducedRow> drawn;
  for (const auto& planned : plan) {
    auto finished = reproduce_row(request, planned, observer);
    reproduced.stopped = !finished;
    if (!finished) return reproduced;
    reproduced.rows.push_back(std::move(finished->result));
    drawn.push_back(std::move(finished->drawn));
  }
  draw_rows(request.out, plan.back().experiment->task(), drawn);
  return reproduced;
}

}  // namespace propagator::run
