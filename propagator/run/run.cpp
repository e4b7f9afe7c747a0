#include "propagator/run/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/core/files.h"

namespace propagator::run {
namespace {

// To compute, not what.
bool says_where(const std::string& key) {
  return key == "device" || key == "precision" || key == "threads";
}

bool begins_with_one_of(const std::string& key,
                        const std::vector<std::string>& starts) {
  return std::ranges::any_of(
      starts, [&](const std::string& start) { return key.starts_with(start); });
}

// A run and its checkpoints differ at most in what `resume` has changed, and in
// where they were computed.
void expect_checkpoint_of(const train::RunDirectory& run,
                          const fs::path& checkpoint) {
  const auto may_differ = [](const std::string& key) {
    return key == "name" || key.starts_with("reproduce.") || says_where(key) ||
           begins_with_one_of(key, resumable_keys());
  };
  const auto mine = run.read_config();
  const auto other = config::Document::from_text(
      train::load_config(checkpoint), (checkpoint / "config.yaml").string());
  for (const auto& [key, entry] : other.entries()) {
    const auto found = mine.get(key);
    if (!found || *found == entry.text || may_differ(key)) continue;
    throw UsageError(
        fmt::format("{} is of another run: it has {}={}, and {} has {}",
                    checkpoint.string(), key, entry.text, run.path().string(),
                    *found),
        "--from names a checkpoint of the run itself, whose config.yaml stays "
        "as it was trained");
  }
}

}  // namespace

Run::Run(const fs::path& folder, const OpenOptions& options)
    : directory_(std::make_unique<train::RunDirectory>(
          train::RunDirectory::open(folder))) {
  auto document = directory_->read_config();
  if (options.for_pages && document.get("data.storage")) {
    document.set("data.storage", "stream", "a page");
  }
  change_run(document, options.change,
             {"eval.", "report.", "data.file", "data.storage"});
  experiment_ = std::make_unique<Experiment>(document);
  runtime_ = experiment_->make_runtime();
  scope_ = std::make_unique<RuntimeScope>(runtime_, experiment_->run().threads);
  const auto& task = experiment_->task();
  model_ = task.make_model();
  model_->to(runtime_.device, runtime_.dtype());
  const auto path = choose_checkpoint(*directory_, options.from);
  checkpoint_ = path.filename().string();
  auto weights = train::load_weights(path, options.weights);
  for (const auto& name : task.former_parameters()) weights.erase(name);
  train::set_parameters(*model_, weights, path.string());
  model_->eval();
  surrogate_ = task.surrogate(model_, runtime_);
}

void Run::prepare_data() const {
  experiment_->task().prepare(experiment_->run().seed, runtime_);
}

void change_run(config::Document& document, const Change& change,
                const std::vector<std::string>& allowed) {
  if (!change) return;
  const auto before = document.entries();
  change(document);
  for (const auto& [key, entry] : document.entries()) {
    const auto old = before.find(key);
    if (old != before.end() && old->second.text == entry.text) continue;
    if (!says_where(key) && !begins_with_one_of(key, allowed)) {
      throw ConfigError(
          key,
          fmt::format("{}: {} belongs to the run and cannot be changed here",
                      entry.where, key),
          "train another run with it: propagator train … --name NAME");
    }
  }
}

const std::vector<std::string>& resumable_keys() {
  static const std::vector<std::string> keys{
      "train.", "schedule.", "optimizer.",  "report.",
      "loss.",  "eval.",     "data.storage"};
  return keys;
}

fs::path choose_checkpoint(const train::RunDirectory& run,
                           const std::string& from) {
  if (!from.empty()) {
    for (const auto& path : {fs::path(from), run.checkpoints() / from}) {
      if (!fs::is_directory(path)) continue;
      expect_checkpoint_of(run, path);
      return path;
    }
    std::string names;
    for (const auto& path : train::list_checkpoints(run.checkpoints())) {
      names += fmt::format(" {}", path.filename().string());
    }
    throw FileError("no checkpoint at " + from, "there are:" + names);
  }
  const auto all = train::list_checkpoints(run.checkpoints());
  if (all.empty()) {
    throw FileError(
        fmt::format("{} has no checkpoint yet", run.path().string()),
        "`propagator resume` starts it again");
  }
  expect_checkpoint_of(run, all.back());
  return all.back();
}

void rethrow_with_memory_hint(const Experiment& experiment,
                              const std::exception& error) {
  // Errors of our own have hints of their own.
  const bool ours = dynamic_cast<const Hinted*>(&error) != nullptr;
  if (ours || exit_code(error) != ExitCode::kDevice) return;
  const std::string what = error.what();
  throw DeviceError(what.substr(0, what.find('\n')),
                    experiment.hint_for_memory());
}

}  // namespace propagator::run
