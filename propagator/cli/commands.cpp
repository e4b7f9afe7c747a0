#include "propagator/cli/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"

namespace propagator::cli {

void Overrides::add_to(CLI::App& verb, Subject subject) {
  verb.add_option("-s,--set", assignments,
                  subject == Subject::kModel
                      ? "Override a key of the configuration (`check` shows "
                        "them), mostly of eval"
                      : "Override a key of the configuration: -s train.batch=8")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb.add_option("--device", device, "auto, cpu, cuda, cuda:N or mps");
  verb.add_option("--precision", precision, "fp64, fp32, tf32 or bf16");
  verb.add_option("--threads", threads, "CPU threads (0: all cores)");
  if (subject == Subject::kModel) return;
  if (subject == Subject::kNewRun) {
    verb.add_option("--seed", seed, "Seed of data, weights and batches");
  }
  verb.add_option("--time-limit", time_limit,
                  "Checkpoint and stop this session after: 90s, 15m, 2h");
}

void Overrides::add_model_to(CLI::App& verb, const std::string& help) {
  verb.add_option("--model", model, help);
}

void Overrides::apply_to(config::Document& document) const {
  const auto set = [&](const std::optional<std::string>& value, const char* key,
                       const char* option) {
    if (value) document.set(key, *value, option);
  };
  set(device, "device", "--device");
  set(precision, "precision", "--precision");
  set(threads, "threads", "--threads");
  set(seed, "seed", "--seed");
  set(model, "model.name", "--model");
  for (const auto& assignment : assignments) {
    document.override_with(assignment);
  }
  // The run is named after the one; the other would be trained.
  if (model && document.get("model.name") != model) {
    throw UsageError(
        fmt::format("--model {} and {} contradict each other", *model,
                    document.entries().at("model.name").where),
        "leave one of them out");
  }
}

void Overrides::limit_time_of(run::Experiment& experiment) const {
  if (time_limit) experiment.limit_time(parse_duration(*time_limit));
}

void Overrides::apply_to_run(config::Document& document,
                             bool (*may_change)(config::Role)) const {
  const run::Experiment trained(document);
  const auto& schema = trained.schema();
  document.rename_former(schema);
  const auto before = document.entries();
  apply_to(document);
  // Of what was typed: the run's own file is the program's affair.
  for (const auto& renamed : document.rename_former(schema)) {
    log::warn("{}", renamed);
  }
  for (const auto& [key, entry] : document.entries()) {
    const auto old = before.find(key);
    if (old != before.end() && old->second.text == entry.text) continue;
    const auto* field = schema.find(key);
    if (field != nullptr && !may_change(field->role)) {
      throw ConfigError(
          key,
          fmt::format("{}: {} belongs to the run and cannot be changed here",
                      entry.where, key),
          "train another run with it: propagator train … --name NAME");
    }
  }
}

namespace {

// The YAML files of a folder that comes with the program, by name.
std::map<std::string, fs::path> files_of(const std::string& folder_name) {
  std::vector<fs::path> folders{folder_name};
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const auto prefix = program.parent_path().parent_path();
    // Installed: prefix/bin and prefix/share; in a build: build/bin.
    folders.push_back(prefix / "share/propagator" / folder_name);
    folders.push_back(prefix.parent_path() / folder_name);
  }
  std::map<std::string, fs::path> configs;
  for (const auto& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
      if (entry.path().extension() != ".yaml") continue;
      auto name = fs::relative(entry.path(), folder);
      configs.try_emplace(name.replace_extension().string(), entry.path());
    }
  }
  return configs;
}

}  // namespace

std::map<std::string, fs::path> known_configs() { return files_of("configs"); }
std::map<std::string, fs::path> known_problems() {
  return files_of("problems");
}

std::string present_config_name(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kFormer[] = {
      {"locate/document-", "locate/lecture-"}};
  for (const auto& [former, present] : kFormer) {
    if (!name.starts_with(former)) continue;
    return fmt::format("{}{}", present, name.substr(former.size()));
  }
  return name;
}

fs::path find_config(const std::string& config) {
  if (fs::is_regular_file(config)) return config;
  const auto asked = present_config_name(config);
  std::vector<std::string> names;
  for (const auto& known : {known_configs(), known_problems()}) {
    for (const auto& [name, path] : known) {
      if (name == config || name == asked) return path;
      names.push_back(name);
    }
  }
  if (fs::exists(fs::path(config) / "config.yaml")) {
    throw UsageError(fmt::format("{} is a run, not a configuration", config),
                     fmt::format("`propagator resume {0}` goes on with it, "
                                 "{0}/config.yaml is its configuration",
                                 config));
  }
  if (fs::is_directory(config)) {
    throw UsageError(fmt::format("{} is a folder, not a file", config),
                     "name a YAML file");
  }
  throw FileError(
      fmt::format("no configuration file {}", config),
      config::did_you_mean(config, names,
                           "`propagator list` shows those that come with it"));
}

namespace {

// A run and its checkpoints differ at most in what `resume` has changed, and in
// where they were computed.
void expect_checkpoint_of(const train::RunDirectory& run,
                          const config::Schema& schema,
                          const fs::path& checkpoint) {
  auto mine = run.read_config();
  auto other = config::Document::from_text(
      train::load_config(checkpoint), (checkpoint / "config.yaml").string());
  mine.rename_former(schema);
  other.rename_former(schema);
  for (const auto& field : schema.fields()) {
    const auto here = mine.get(field.path), there = other.get(field.path);
    if (!here || !there || *here == *there) continue;
    const bool may_differ = config::resume_may_change(field.role) ||
                            field.role == config::Role::kLabel;
    if (may_differ) continue;
    throw UsageError(
        fmt::format("{} is of another run: it has {}={}, and {} has {}",
                    checkpoint.string(), field.path, *there,
                    run.path().string(), *here),
        "--from names a checkpoint of the run itself, whose config.yaml stays "
        "as it was trained");
  }
}

}  // namespace

fs::path choose_checkpoint(const train::RunDirectory& run,
                           const config::Schema& schema,
                           const std::string& from) {
  if (!from.empty()) {
    for (const auto& path : {fs::path(from), run.checkpoints() / from}) {
      if (!fs::is_directory(path)) continue;
      expect_checkpoint_of(run, schema, path);
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
  expect_checkpoint_of(run, schema, all.back());
  return all.back();
}

namespace {

TrainedModel load(const train::RunDirectory& directory,
                  config::Document document, const std::string& from,
                  const Overrides& overrides, Weights weights) {
  overrides.apply_to_run(document, config::evaluation_may_change);
  TrainedModel trained;
  trained.experiment = std::make_unique<run::Experiment>(document);
  trained.runtime = trained.experiment->make_runtime();
  trained.model = trained.experiment->task().make_model();
  trained.model->to(trained.runtime.device, trained.runtime.dtype());
  const auto path =
      choose_checkpoint(directory, trained.experiment->schema(), from);
  train::set_parameters(*trained.model, train::load_weights(path, weights),
                        path.string());
  return trained;
}

}  // namespace

TrainedModel load_trained(const std::string& run, const std::string& from,
                          const Overrides& overrides, Weights weights) {
  const auto directory = train::RunDirectory::open(run);
  return load(directory, directory.read_config(), from, overrides, weights);
}

TrainedModel load_for_pages(const std::string& run, const std::string& from,
                            Overrides overrides, Weights weights) {
  // A page needs few of many cases, where a task has them on a disk.
  const auto directory = train::RunDirectory::open(run);
  const auto document = directory.read_config();
  if (document.get("data.storage")) {
    overrides.assignments.insert(overrides.assignments.begin(),
                                 "data.storage=stream");
  }
  auto trained = load(directory, document, from, overrides, weights);
  trained.experiment->task().prepare(trained.experiment->run().seed,
                                     trained.runtime);
  return trained;
}

void expect_free(const fs::path& file, bool force) {
  if (fs::exists(file) && !force) {
    throw UsageError(file.string() + " exists already", "--force replaces it");
  }
}

double parse_duration(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  const double factor = unit.empty() || unit == "s" ? 1
                        : unit == "m"               ? 60
                        : unit == "h"               ? 3600
                                                    : 0;
  if (error != std::errc() || factor == 0 || !(value > 0)) {
    throw UsageError(
        fmt::format("--time-limit: expected a time such as 90s, 15m or 2h, got "
                    "'{}'",
                    text));
  }
  return value * factor;
}

}  // namespace propagator::cli
