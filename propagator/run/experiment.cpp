#include "propagator/run/experiment.h"

#include <algorithm>
#include <filesystem>

#include "propagator/core/error.h"
#include "propagator/core/sha256.h"
#include "propagator/tasks/registry.h"

namespace propagator::run {
namespace {

// Of a folder, on all usual file systems.
constexpr size_t kLongestName = 255;

}  // namespace

void RunOptions::describe(config::Schema& s) {
  s.field("task", task, {.help = "`propagator list` shows them"});
  s.field("name", name, {.help = "of the run; empty: the file's name"});
  s.field("seed", seed, {.help = "of data, weights and batches", .min = 0});
  s.field("device", device, {.help = "auto, cpu, cuda, cuda:N or mps"});
  s.field("precision", precision,
          {.help = "tf32 (CUDA) and bf16 round inside matrix products"});
  s.field("threads", threads,
          {.help = "on the CPU; 0: all cores", .min = 0, .max = 4096});
}

void RunOptions::validate() const {
  const std::filesystem::path path(name);
  if (!path.is_relative() || std::ranges::count(path, "..") > 0) {
    throw ConfigError(
        "name", fmt::format("{} is not inside the folder of all runs", name),
        "--runs chooses that folder");
  }
  for (const auto& part : path) {
    const auto length = part.native().size();
    if (length <= kLongestName) continue;
    throw ConfigError("name",
                      fmt::format("expected at most {} bytes for the name of a "
                                  "folder, got {}",
                                  kLongestName, length),
                      "--name gives the run a shorter one");
  }
}

void ReportOptions::describe(config::Schema& s) {
  s.field("page", page, {.help = "write report.html when training ends"});
  s.field("cases", cases, {.help = "that it shows", .min = 1, .max = 16});
}

void ReproduceOptions::describe(config::Schema& s) {
  s.field("most", most,
          {.help = "largest value of the first metric that counts as "
                   "reproduced; 0: no limit",
           .min = 0});
  s.field("document", document,
          {.help = "what the document claims for it; 0: what the task knows",
           .min = 0});
  s.field("seeds", seeds, {.help = "to train", .min = 1, .max = 1000});
}

Experiment::Experiment(const config::Document& document)
    : task_(tasks::make_task(document)) {
  run_.task = tasks::task_of(document);
  run_.describe(schema_);
  task_->describe(schema_);
  train_.describe(schema_);
  schema_.section("report", report_);
  schema_.section("reproduce", reproduce_);
  for (const auto& [path, text] : task_->defaults()) {
    schema_.set_default(path, text);
  }
  document.apply_to(schema_);
  try {
    run_.validate();
    task_->validate();
    train_.validate();
  } catch (const ConfigError& error) {
    document.rethrow_with_place(error);
  }
}

std::vector<std::string> Experiment::remarks(
    std::optional<int64_t> cases) const {
  std::vector<std::string> remarks;
  for (const auto& all : {train_.unused_options(), task_->unused_options()}) {
    for (const auto& [key, why] : all) {
      for (const auto& field : schema_.fields()) {
        if (!field.path.starts_with(key)) continue;
        if (field.get() == field.default_text) continue;
        remarks.push_back(fmt::format("{} has no effect: {}", field.path, why));
      }
    }
  }
  const auto steps = train_.scheduled_steps(cases);
  if (steps && *steps > 0 && *steps < train_.schedule.warmup_steps()) {
    remarks.push_back(
        fmt::format("schedule.warmup is not over at step {}, the last that "
                    "has a learning rate: it never comes to schedule.lr",
                    *steps));
  }
  return remarks;
}

std::string Experiment::hint_for_memory() const {
  std::vector<std::string> keys;
  for (const char* key : {"train.batch", "eval.batch", "points.per_axis",
                          "eval.per_axis", "data.storage"}) {
    if (schema_.find(key) != nullptr) keys.push_back(key);
  }
  return fmt::format("ask for less at a time: {}", fmt::join(keys, ", "));
}

std::string Experiment::hash() const {
  std::string text;
  for (const auto& field : schema_.fields()) {
    const bool only_where = field.path == "name" || field.path == "device" ||
                            field.path == "threads" ||
                            field.path == "train.time_limit" ||
                            field.path.starts_with("report.") ||
                            field.path.starts_with("reproduce.");
    if (!only_where) text += field.path + "=" + field.get() + "\n";
  }
  return sha256(text);
}

Runtime Experiment::make_runtime() const {
  return propagator::make_runtime(run_.device, run_.precision);
}

std::shared_ptr<torch::nn::Module> Experiment::make_model(
    const Runtime& runtime) const {
  auto model = task_->make_model();
  task_->initialise(*model, run_.seed);
  model->to(runtime.device, runtime.dtype());
  return model;
}

}  // namespace propagator::run
