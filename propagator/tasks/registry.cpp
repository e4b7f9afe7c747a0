#include "propagator/tasks/registry.h"

#include "propagator/core/kinds.h"
#include "propagator/tasks/density/density.h"
#include "propagator/tasks/forecast/forecast.h"
#include "propagator/tasks/locate/locate.h"
#include "propagator/tasks/reconstruct/reconstruct.h"
#include "propagator/tasks/sequence/sequence.h"
#include "propagator/tasks/solve/solve.h"

namespace propagator::tasks {
namespace {

std::map<std::string, TaskKind>& registered() {
  static std::map<std::string, TaskKind> tasks{
      {"density", density_kind()},   {"forecast", forecast_kind()},
      {"locate", locate_kind()},     {"reconstruct", reconstruct_kind()},
      {"sequence", sequence_kind()}, {"solve", solve_kind()}};
  return tasks;
}

}  // namespace

bool has_section(const config::Document& document, const std::string& name) {
  const auto begins = document.entries().lower_bound(name + ".");
  return begins != document.entries().end() &&
         begins->first.starts_with(name + ".");
}

const std::map<std::string, TaskKind>& all_tasks() { return registered(); }

void add_task(const std::string& name, TaskKind kind) {
  registered().insert_or_assign(name, std::move(kind));
}

std::string task_of(const config::Document& document) {
  if (const auto named = document.get("task")) return *named;
  for (const auto& [name, kind] : all_tasks()) {
    if (kind.claims && kind.claims(document)) return name;
  }
  return "forecast";
}

std::unique_ptr<Task> make_task(const config::Document& document) {
  return find_kind(all_tasks(), document, "task", task_of(document))
      .make(document);
}

}  // namespace propagator::tasks
