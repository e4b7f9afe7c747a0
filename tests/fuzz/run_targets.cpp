// What a run keeps, which a full disk or an editor may have damaged.

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "fuzz/target.h"
#include "propagator/core/files.h"
#include "propagator/core/sha256.h"
#include "propagator/run/history_figures.h"
#include "propagator/run/train.h"
#include "run/line_task.h"

namespace propagator::fuzz {
namespace {

constexpr const char* kSums = "SHA256SUMS";
// In front of each file of a run that is packed in one text.
constexpr std::string_view kFile = "\n==> ";

// The smallest runs: of a task that has no options, and of one with many.
constexpr const char* kRuns[] = {
    "task: line\ntrain: {max_steps: 4, checkpoint_every: 2, log_every: 1}\n",
    "task: solve\nmodel: {name: pinn, width: 3, layers: 1}\n"
    "problem: {domain: ['x in [0, 1]'], fields: u, equations: [u_xx = 1],\n"
    "  conditions: ['on x=0: u = 0', 'on x=1: u = 0']}\n"
    "points: {per_axis: 4}\neval: {per_axis: 5}\n"
    "train: {max_steps: 2, log_every: 1}\noptimizer: {kind: adam}\n"};

void read_metrics(const std::string& bytes) {
  const auto history = train::history_of(bytes, "metrics.jsonl");
  expect(history.train.step.size() == history.train.loss.size(),
         "a loss for each step");
  run::events_of(history);
}

std::vector<std::string> metrics_seeds() {
  return {R"({"kind": "train", "step": 1, "loss": 0.5, "lr": 0.001,)"
          R"( "terms": {"fit": 0.25, "weight of fit": 2}})"
          "\n"
          R"({"kind": "validation", "step": 2, "loss": null})"
          "\n{\"kind\": \"train\", \"st"};
}

void expect_same_evaluation(const tasks::Evaluation& evaluation) {
  const auto stored = evaluation.to_json();
  const auto copy = tasks::Evaluation::from_json(stored);
  expect(copy.to_json() == stored, "an evaluation reads back");
  expect(copy.table.text() == evaluation.table.text(), "with its table");
  evaluation.table.html();
}

void read_result_json(const std::string& bytes) {
  static const auto folder = [] {
    fs::create_directories(scratch_folder() / "result");
    return scratch_file("result/config.yaml", "task: line\n").parent_path();
  }();
  scratch_file("result/result.json", bytes);
  const auto result = run::read_result(train::RunDirectory::open(folder));
  if (result) expect_same_evaluation(result->evaluation);
}

fs::path trained(const std::string& config, int number) {
  const auto folder = scratch_folder() / fmt::format("seed-{}", number);
  const run::Experiment experiment(config::Document::from_text(
      config + "device: cpu\nreport: {page: no}\n", "seed"));
  Observer silent;
  run::train(experiment, folder, /*force=*/true, silent);
  return folder;
}

std::vector<std::string> result_seeds() {
  std::vector<std::string> seeds;
  for (const auto* config : kRuns) {
    seeds.push_back(read_file(trained(config, 0) / "result.json"));
  }
  return seeds;
}

// The files of a run in one text, each behind a line with its name.
std::string packed(const fs::path& folder, bool with_sums) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool sums = entry.path().filename() == kSums;
    if (entry.is_regular_file() && (with_sums || !sums)) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  std::string bytes;
  for (const auto& path : files) {
    bytes += fmt::format("{}{}\n", kFile, fs::relative(path, folder).string());
    bytes += read_file(path);
  }
  return bytes;
}

// A name that stays in the run's folder.
bool is_inside(const std::string& name) {
  return !name.empty() && name.size() < 100 && name.front() != '/' &&
         name.find("..") == std::string::npos &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '/';
         });
}

// Gives a checkpoint whose sums are not packed those of its files, so that
// damage comes to the readers behind the sums.
void add_sums(const fs::path& folder) {
  for (const auto& checkpoint :
       train::list_checkpoints(folder / "checkpoints")) {
    if (!fs::is_directory(checkpoint) || fs::exists(checkpoint / kSums)) {
      continue;
    }
    std::string sums;
    for (const auto& entry : fs::directory_iterator(checkpoint)) {
      if (!entry.is_regular_file()) continue;
      sums += fmt::format("{}  {}\n", sha256(read_file(entry.path())),
                          entry.path().filename().string());
    }
    std::ofstream(checkpoint / kSums) << sums;
  }
}

fs::path unpacked(const std::string& bytes) {
  const auto folder = scratch_folder() / "run";
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (size_t at = bytes.find(kFile); at != std::string::npos;) {
    const size_t name = at + kFile.size();
    const size_t content = std::min(bytes.find('\n', name), bytes.size());
    at = bytes.find(kFile, content);
    const auto file = bytes.substr(name, content - name);
    if (!is_inside(file) || content == bytes.size()) continue;
    std::error_code taken;  // a file stands where a folder should
    fs::create_directories((folder / file).parent_path(), taken);
    std::ofstream(folder / file, std::ios::binary)
        << bytes.substr(content + 1, at - std::min(at, content + 1));
  }
  add_sums(folder);
  return folder;
}

// Whether the model has the size of one of ours: another may need any amount
// of memory, and a user may have it.
bool is_small(const run::Experiment& experiment) {
  static const auto small = [] {
    std::vector<std::unique_ptr<run::Experiment>> all;
    for (const auto* config : kRuns) {
      all.push_back(std::make_unique<run::Experiment>(
          config::Document::from_text(config, "ours")));
    }
    return all;
  }();
  return std::ranges::any_of(small, [&](const auto& ours) {
    const auto& fields = ours->schema().fields();
    return ours->run().task == experiment.run().task &&
           std::ranges::all_of(fields, [&](const config::Field& field) {
             const auto* other = experiment.schema().find(field.path);
             return field.role != config::Role::kModel ||
                    (other != nullptr && other->get() == field.get());
           });
  });
}

// As `check` does.
void check_checkpoints(const train::RunDirectory& directory,
                       const tasks::Task& task) {
  const auto model = task.make_model();
  for (const auto& path : train::list_checkpoints(directory.checkpoints())) {
    run::set_weights(task, *model, train::load_checkpoint(path).model, "fuzz");
  }
}

void read_run(const std::string& bytes) {
  const auto directory = train::RunDirectory::open(unpacked(bytes));
  run::events_of(train::read_history(directory.metrics()));
  train::MetricsFile(directory.metrics(), 3);
  for (const double step :
       train::read_history(directory.metrics()).train.step) {
    expect(step <= 3, "no step of the future is kept");
  }
  const run::Experiment experiment(directory.read_config());
  if (!is_small(experiment)) return;
  // (Of an older program the model would be tested again, at as many points as
  // the configuration asks for.)
  if (tasks::Evaluation::is_in(directory.read_result())) {
    expect_same_evaluation(run::read_result(directory)->evaluation);
  }
  const auto opened = run::open(directory.path());
  expect(!opened.surrogate().inputs().empty(), "a model takes something");
  check_checkpoints(directory, experiment.task());
}

std::vector<std::string> run_seeds() {
  std::vector<std::string> seeds;
  for (const auto* config : kRuns) {
    const auto folder = trained(config, 1);
    seeds.push_back(packed(folder, false));
    seeds.push_back(packed(folder, true));
  }
  return seeds;
}

}  // namespace

std::vector<Target> run_targets() {
  tasks::add_task("line", {.help = "a line through points",
                           .make = [](const config::Document&) {
                             return std::make_unique<testing::LineTask>();
                           }});
  return {{"metrics", read_metrics, metrics_seeds},
          {"result", read_result_json, result_seeds},
          {"run", read_run, run_seeds}};
}

}  // namespace propagator::fuzz
