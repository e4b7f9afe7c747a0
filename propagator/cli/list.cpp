#include "propagator/bench/bench.h"
#include "propagator/cli/commands.h"
#include "propagator/core/files.h"
#include "propagator/models/field_net.h"
#include "propagator/models/forecaster.h"
#include "propagator/models/locator.h"
#include "propagator/tasks/registry.h"

namespace propagator::cli {
namespace {

// The first comment line of a configuration says what it is.
std::string first_comment(const fs::path& file) {
  const auto text = read_file(file);
  if (!text.starts_with("# ")) return "";
  return text.substr(2, text.find('\n') - 2);
}

template <class Kind>
void print_kinds(const std::map<std::string, Kind>& kinds) {
  for (const auto& [name, kind] : kinds) {
    fmt::print("  {:<38} {}\n", name, kind.help);
  }
}

int show_all() {
  fmt::print("Tasks\n");
  print_kinds(tasks::all_tasks());
  fmt::print("\nModels of forecast\n");
  print_kinds(models::forecasters());
  fmt::print("\nModels of locate\n");
  print_kinds(models::locators());
  fmt::print("\nModels of solve\n");
  print_kinds(models::field_nets());
  fmt::print("\nProblems (propagator solve NAME)\n");
  for (const auto& [name, path] : known_problems()) {
    fmt::print("  {:<38} {}\n", name, first_comment(path));
  }
  fmt::print("\nConfigurations (propagator train NAME)\n");
  for (const auto& [name, path] : known_configs()) {
    fmt::print("  {:<38} {}\n", name, first_comment(path));
  }
  fmt::print("\nBenchmarks (propagator bench NAME)\n");
  for (const auto& kind : bench::all_benches()) {
    fmt::print("  {:<38} {}\n", kind.name, kind.help);
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
