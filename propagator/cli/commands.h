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
#include "propagator/run/run.h"

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
void add_generate(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_info(CLI::App& app, Action& action);
void add_list(CLI::App& app, Action& action);
// What it prints.
std::string listed(bool as_json);
void add_manual(CLI::App& app, Action& action);

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
  // The same as a change of a run's configuration; and its parts: where to
  // compute, seed and precision, all other keys.
  run::Change change() const;
  run::Change where() const;
  run::Change how() const;
  run::Change settings() const;
  std::optional<double> seconds() const;  // the time limit
};

// What the verbs share that start a run.
struct NewRun {
  std::string runs = "runs", name, from;
  bool force = false, watch = false, json = false;
  Overrides overrides;

  void add_to(CLI::App& verb);
  // `usual_name`: of the run, unless one is given. Returns the exit code.
  int train(config::Document document, const std::string& usual_name) const;
};

// UsageError if the file is there already and `force` is not given.
void expect_free(const std::filesystem::path& file, bool force);

// Says on standard error what went wrong, and a hint; returns the exit code.
int report_error(const std::exception& error);

// Seconds of "90", "90s", "15m", "2h". UsageError otherwise.
double parse_duration(const std::string& text);

}  // namespace propagator::cli
