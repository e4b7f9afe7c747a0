#include "propagator/tasks/registry.h"

#include "propagator/core/error.h"
#include "propagator/models/field_net.h"
#include "propagator/models/forecaster.h"
#include "propagator/models/locator.h"
#include "propagator/tasks/forecast/forecast.h"
#include "propagator/tasks/locate/locate.h"
#include "propagator/tasks/solve/solve.h"

namespace propagator::tasks {
namespace {

// The entry of `kinds` that the document names under `key`.
template <class Kind>
const Kind* find_kind(const std::map<std::string, Kind>& kinds,
                      const config::Document& document, const std::string& key,
                      const std::string& otherwise) {
  const auto name = document.get(key).value_or(otherwise);
  const auto found = kinds.find(name);
  if (found != kinds.end()) return &found->second;
  std::vector<std::string> names;
  for (const auto& [known, kind] : kinds) names.push_back(known);
  document.rethrow_with_place(ConfigError(
      key,
      fmt::format("expected one of {}, got '{}'", fmt::join(names, ", "), name),
      config::did_you_mean(name, names, "`propagator list` shows them")));
}

}  // namespace

const std::map<std::string, TaskKind>& all_tasks() {
  static const std::map<std::string, TaskKind> tasks{
      {"forecast",
       {"given the first frames of a field, what does it do next?",
        [](const config::Document& document) {
          const auto* kind = find_kind(models::forecasters(), document,
                                       "model.name", "heat_former");
          return std::make_unique<Forecast>(kind->options());
        }}},
      {"locate",
       {"given which sensors of a detector fired, and when, where was it?",
        [](const config::Document& document) {
          const auto* kind =
              find_kind(models::locators(), document, "model.name", kLocator);
          return std::make_unique<Locate>(kind->options());
        }}},
      {"solve",
       {"given only a PDE and its conditions, what is the solution?",
        [](const config::Document& document) {
          const auto* kind =
              find_kind(models::field_nets(), document, "model.name", kSolver);
          std::vector<std::string> domain;
          config::parse(document.get("problem.domain").value_or(""), {},
                        domain);
          return std::make_unique<Solve>(kind->options(), std::ssize(domain));
        }}},
  };
  return tasks;
}

std::string task_of(const config::Document& document) {
  if (const auto named = document.get("task")) return *named;
  const auto begins = document.entries().lower_bound("problem.");
  const bool has_problem = begins != document.entries().end() &&
                           begins->first.starts_with("problem.");
  return has_problem ? "solve" : "forecast";
}

std::unique_ptr<train::Task> make_task(const config::Document& document) {
  return find_kind(all_tasks(), document, "task", task_of(document))
      ->make(document);
}

}  // namespace propagator::tasks
