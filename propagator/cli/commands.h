#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/tasks/experiment.h"
#include "propagator/train/run_directory.h"

namespace propagator::cli {

// What the chosen verb does once the command line has been read; returns the
// exit code.
using Action = std::function<int()>;

// Each adds its verb to the program and sets `action` when it is chosen.
void add_train(CLI::App& app, Action& action);
void add_resume(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_predict(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_info(CLI::App& app, Action& action);
void add_list(CLI::App& app, Action& action);

// The options that several verbs share; each is short for a -s override.
struct Overrides {
  std::vector<std::string> assignments;
  std::optional<std::string> device, precision, threads, seed, time_limit;

  void add_to(CLI::App& verb, bool with_training);
  void apply_to(config::Document& document) const;
};

// The file that CONFIG means: a path, or the name of one of the configurations
// that come with the program, such as forecast/quick.
std::filesystem::path find_config(const std::string& name);
// The folders that hold such configurations.
std::vector<std::filesystem::path> config_folders();

// A run's newest checkpoint, or the one that `from` names.
std::filesystem::path choose_checkpoint(const train::RunDirectory& run,
                                        const std::string& from);

// Seconds of "90", "90s", "15m", "2h". UsageError otherwise.
double parse_duration(const std::string& text);

}  // namespace propagator::cli
