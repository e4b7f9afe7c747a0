#include "propagator/bench/bench.h"
#include "propagator/cli/commands.h"
#include "propagator/core/files.h"
#include "propagator/run/configurations.h"
#include "propagator/tasks/registry.h"

namespace propagator::cli {
namespace {

// The first comment line of a configuration says what it is.
std::string first_comment(const fs::path& file) {
  const auto text = read_file(file);
  if (!text.starts_with("# ")) return "";
  return text.substr(2, text.find('\n') - 2);
}

void print(const std::string& name, const std::string& help) {
  fmt::print("  {:<38} {}\n", name, help);
}

int show_all() {
  fmt::print("Tasks\n");
  for (const auto& [name, task] : tasks::all_tasks()) print(name, task.help);
  for (const auto& [name, task] : tasks::all_tasks()) {
    fmt::print("\nModels of {}\n", name);
    for (const auto& [model, help] : task.models) print(model, help);
  }
  fmt::print("\nProblems (propagator solve NAME)\n");
  for (const auto& [name, path] : run::known_problems()) {
    print(name, first_comment(path));
  }
  fmt::print("\nConfigurations (propagator train NAME)\n");
  for (const auto& [name, path] : run::known_configs()) {
    print(name, first_comment(path));
  }
  fmt::print("\nBenchmarks (propagator bench NAME)\n");
  for (const auto& kind : bench::all_benches()) {
    print(kind.name, kind.help);
  }
  return 0;
}

}  // namespace

void add_list(CLI::App& app, Action& action) {
  auto* verb = app.add_subcommand(
      "list", "Tasks, models, configurations and benchmarks there are");
  verb->callback([&action] { action = show_all; });
}

}  // namespace propagator::cli
