#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/run/experiment.h"
#include "propagator/train/checkpoint.h"
#include "propagator/train/run_directory.h"

namespace propagator::cli {

// What the chosen verb does once the command line has been read; returns the
// exit code.
using Action = std::function<int()>;

// Each adds its verb to the program and sets `action` when it is chosen.
void add_train(CLI::App& app, Action& action);
void add_solve(CLI::App& app, Action& action);
void add_resume(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_reproduce(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_predict(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_info(CLI::App& app, Action& action);
void add_list(CLI::App& app, Action& action);

// The options that several verbs share; each is short for a -s override, but
// for the time limit, which is of one session and no part of a run.
struct Overrides {
  std::vector<std::string> assignments;
  std::optional<std::string> device, precision, threads, seed, model,
      time_limit;

  // What a verb works on: a run that it starts, one that it goes on with, or
  // weights and speed alone. A run keeps its seed.
  enum class Subject { kNewRun, kRun, kModel };
  void add_to(CLI::App& verb, Subject subject);
  void add_model_to(CLI::App& verb, const std::string& help);
  // UsageError if --model and -s name two models.
  void apply_to(config::Document& document) const;
  void limit_time_of(run::Experiment& experiment) const;
  // To the configuration of a run that exists: only keys whose role
  // `may_change`. The others made its weights and its split into training and
  // test; ConfigError.
  void apply_to_run(config::Document& document,
                    bool (*may_change)(config::Role)) const;
};

// What the verbs share that start a run.
struct NewRun {
  std::string runs = "runs", name;
  bool force = false, json = false;
  Overrides overrides;

  void add_to(CLI::App& verb);
  // `usual_name`: of the run, unless one is given. Returns the exit code.
  int train(config::Document document, const std::string& usual_name) const;
};

// The configurations that come with the program or lie in ./configs, by name
// (forecast/quick), and the problems (wave).
std::map<std::string, std::filesystem::path> known_configs();
std::map<std::string, std::filesystem::path> known_problems();
// The name of a configuration that may be given by its former one.
std::string present_config_name(const std::string& name);
// The file that CONFIG means: a path, or one of those names.
std::filesystem::path find_config(const std::string& config);

// A run's newest checkpoint, or the one of its own that `from` names; `schema`
// is of the run's configuration.
std::filesystem::path choose_checkpoint(const train::RunDirectory& run,
                                        const config::Schema& schema,
                                        const std::string& from);

// A run's model with its weights, best or last, ready to use.
struct TrainedModel {
  std::unique_ptr<run::Experiment> experiment;
  Runtime runtime;
  std::shared_ptr<torch::nn::Module> model;
};
using train::Weights;
TrainedModel load_trained(const std::string& run, const std::string& from,
                          const Overrides& overrides, Weights weights);
// The same for pages, which show a few cases: the task's data are ready, but
// only what is looked at is made.
TrainedModel load_for_pages(const std::string& run, const std::string& from,
                            Overrides overrides, Weights weights);

// UsageError if the file is there already and `force` is not given.
void expect_free(const std::filesystem::path& file, bool force);

// Seconds of "90", "90s", "15m", "2h". UsageError otherwise.
double parse_duration(const std::string& text);

}  // namespace propagator::cli
