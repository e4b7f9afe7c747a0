#include "propagator/run/experiment.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "propagator/core/error.h"
#include "propagator/core/sha256.h"
#include "propagator/nn/tuned_part.h"
#include "propagator/tasks/registry.h"

namespace propagator::run {
namespace {

// Of a folder, on all usual file systems.
constexpr size_t kLongestName = 255;

}  // namespace

void RunOptions::describe(config::Schema& s) {
  using enum config::Role;
  s.field("task", task,
          {.help = "name of the task; `propagator list` shows the names"});
  s.field("name", name,
          {.help = "name of the run and of its folder; if it is empty, the "
                   "configuration file's",
           .role = kLabel});
  s.field(
      "seed", seed,
      {.help = "seed of the random data, first weights and batches", .min = 0});
  s.field("device", device,
          {.help = "where to compute: auto, cpu, cuda, cuda:N or mps",
           .role = kPlace});
  s.field("precision", precision,
          {.help = "type of the numbers; tf32 (CUDA) and bf16 round inside "
                   "matrix products",
           .role = kCompute});
  s.field("threads", threads,
          {.help = "CPU threads to compute with; 0 takes all cores",
           .min = 0,
           .max = 4096,
           .role = kPlace});
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
  s.field("cases", cases,
          {.help = "how many cases of the test report.html shows",
           .min = 1,
           .max = 16});
}

void ReproduceOptions::describe(config::Schema& s) {
  s.field("metric", metric,
          {.help = "metric that max and published are of, such as MSE; if it "
                   "is empty, the first of the test"});
  s.field("max", max,
          {.help = "largest value of the metric that counts as reproduced; 0 "
                   "sets no limit",
           .min = 0,
           .formerly = "reproduce.most"});
  s.field("also", also,
          {.help = "another metric that decides whether the row counts as "
                   "reproduced, if it is not empty",
           .later = true});
  s.field("also_max", also_max,
          {.help = "largest value of that one; 0 sets no limit",
           .min = 0,
           .later = true});
  s.field("published", published,
          {.help = "value that the publication gives for the metric; 0 takes "
                   "the one that the task knows",
           .min = 0,
           .formerly = "reproduce.document"});
  s.field("seeds", seeds,
          {.help = "how many seeds `propagator reproduce` trains with",
           .min = 1,
           .max = 1000});
}

Experiment::Experiment(config::Document document)
    : task_(tasks::make_task(document)) {
  run_.task = tasks::task_of(document);
  run_.describe(schema_);
  task_->describe(schema_);
  train_.describe(schema_);
  schema_.section("tune", tune_, config::Role::kModel);
  schema_.section("report", report_, config::Role::kReport);
  schema_.section("reproduce", reproduce_, config::Role::kLabel);
  for (const auto& [path, text] : task_->defaults()) {
    schema_.set_default(path, text);
  }
  for (const auto& keys : task_->foreign_keys()) {
    document.drop_inherited(keys, "model.name");
  }
  renamed_ = document.apply_to(schema_);
  try {
    run_.validate();
    task_->validate();
    train_.validate();
  } catch (const ConfigError& error) {
    document.rethrow_with_place(error);
  }
  document_ = std::move(document);
}

void Experiment::expect_metric() const {
  const auto names = task_->metric_names();
  for (const auto& [key, name] :
       {std::pair("reproduce.metric", reproduce_.metric),
        std::pair("reproduce.also", reproduce_.also)}) {
    if (name.empty() || names.empty() || std::ranges::count(names, name) > 0) {
      continue;
    }
    document_.rethrow_with_place(
        ConfigError(key, fmt::format("the test has no metric {}", name),
                    fmt::format("it has {}", fmt::join(names, "; "))));
  }
}

void Experiment::prepare_for_pages() {
  for (const auto& field : schema_.fields()) {
    if (!field.meta.for_pages.empty()) field.set(field.meta.for_pages);
  }
}

std::vector<std::string> Experiment::remarks(
    std::optional<int64_t> cases) const {
  auto remarks = renamed_;
  // The task knows best why; one reason for a key is enough.
  std::set<std::string> told;
  for (const auto& all : {task_->unused_options(), train_.unused_options(),
                          tune_.unused_options()}) {
    for (const auto& [key, why] : all) {
      for (const auto& field : schema_.fields()) {
        if (!field.path.starts_with(key)) continue;
        if (field.get() == field.default_text) continue;
        if (!told.insert(field.path).second) continue;
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
  for (const auto& field : schema_.fields()) {
    if (field.meta.memory) keys.push_back(field.path);
  }
  return fmt::format("ask for less at a time: {}", fmt::join(keys, ", "));
}

std::string Experiment::hash() const {
  std::string text;
  for (const auto& field : schema_.fields()) {
    const bool as_before =
        field.meta.later && field.get() == field.default_text;
    if (!config::is_hashed(field.role) || as_before) continue;
    text += field.hash_text() + "\n";
  }
  return sha256(text);
}

Runtime Experiment::make_runtime() const {
  return propagator::make_runtime(run_.device, run_.precision);
}

std::shared_ptr<torch::nn::Module> Experiment::new_model() const {
  auto model = task_->make_model();
  if (!tune_.active()) return model;
  return with_place([&] {
    try {
      train::add_parts(tune_, *model);
    } catch (const UsageError& error) {
      throw ConfigError("tune.method", error.what(), error.hint());
    }
    return model;
  });
}

std::unique_ptr<train::Tuning> Experiment::make_tuning(
    torch::nn::Module& model) const {
  if (!tune_.active()) return nullptr;
  return with_place(
      [&] { return std::make_unique<train::Tuning>(tune_, model, run_.seed); });
}

std::shared_ptr<torch::nn::Module> Experiment::make_model(
    const Runtime& runtime) const {
  auto model = new_model();
  task_->initialise(*model, run_.seed);
  nn::reset_tuned_parts(*model, run_.seed);
  model->to(runtime.device, runtime.dtype());
  return model;
}

}  // namespace propagator::run
