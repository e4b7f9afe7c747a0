#include "propagator/run/checked.h"

#include <fmt/format.h>

#include "propagator/core/error.h"
#include "propagator/nn/init.h"

namespace propagator::run {
namespace {

constexpr const char* kName = "problem";  // in the places of errors

void expect_key_of_problem(const std::string& key, const std::string& where) {
  const bool good = key == "task" || key == "problem" ||
                    (key.starts_with("problem.") && key != "problem.tables");
  if (good) return;
  throw ConfigError(
      key, fmt::format("{}: {} cannot be set here", where, key),
      "a text that is checked here says `task: solve` and `problem:`, without "
      "files; `propagator check` takes all keys");
}

void expect_solve(const config::Document& document) {
  const auto task = document.get("task").value_or("solve");
  if (task == "solve") return;
  throw ConfigError("task",
                    fmt::format("expected `task: solve`, got '{}'", task));
}

// The points of a check grow with their number.
void expect_few_variables(const config::Document& document) {
  const auto count =
      std::ssize(config::items_of(document.get("problem.domain").value_or("")));
  if (count <= kMostVariables) return;
  throw ConfigError("problem.domain",
                    fmt::format("expected at most {} variables here, got {}",
                                kMostVariables, count),
                    "`propagator check` takes more");
}

}  // namespace

Checked checked(const Experiment& experiment) {
  experiment.expect_metric();
  auto found = experiment.task().inspect();
  const auto model = experiment.new_model();
  const auto all = nn::parameter_count(*model);
  const auto tuning = experiment.make_tuning(*model);
  return {.found = std::move(found),
          .warnings = experiment.remarks(std::nullopt),
          .parameters = all,
          .trained_parameters = tuning ? tuning->parameters() : all};
}

Checked checked_problem(const std::string& text) {
  auto document = config::Document::from_text(text, kName);
  for (const auto& [key, entry] : document.entries()) {
    expect_key_of_problem(key, entry.where);
  }
  expect_solve(document);
  expect_few_variables(document);
  document.set("task", "solve", kName);
  document.set("device", "cpu", kName);
  return checked(Experiment(std::move(document)));
}

}  // namespace propagator::run
