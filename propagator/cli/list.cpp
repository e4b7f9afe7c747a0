#include <nlohmann/json.hpp>

#include "propagator/bench/bench.h"
#include "propagator/cli/commands.h"
#include "propagator/core/files.h"
#include "propagator/data/simulator.h"
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

// What stands under one heading.
struct Part {
  std::string key, heading;  // "/models/forecast", "Models of forecast"
  std::vector<std::pair<std::string, std::string>> entries;  // name, help
};

std::vector<Part> all_parts() {
  const auto commented = [](const std::map<std::string, fs::path>& files,
                            bool simulated = false) {
    std::vector<std::pair<std::string, std::string>> entries;
    for (const auto& [name, path] : files) {
      if (name.starts_with("data/") != simulated) continue;
      entries.emplace_back(name, first_comment(path));
    }
    return entries;
  };
  std::vector<Part> parts{{"/tasks", "Tasks", {}}};
  for (const auto& [name, task] : tasks::all_tasks()) {
    parts[0].entries.emplace_back(name, task.help);
    parts.push_back({"/models/" + name,
                     "Models of " + name,
                     {task.models.begin(), task.models.end()}});
  }
  parts.push_back({"/problems", "Problems (propagator solve NAME)",
                   commented(run::known_problems())});
  const auto simulators = helps_of(data::simulators());
  parts.push_back({"/simulators",
                   "Simulators (propagator data generate NAME)",
                   {simulators.begin(), simulators.end()}});
  parts.push_back({"/simulations",
                   "Simulations (propagator data generate NAME)",
                   commented(run::known_configs(), /*simulated=*/true)});
  parts.push_back({"/configurations", "Configurations (propagator train NAME)",
                   commented(run::known_configs())});
  parts.push_back({"/benchmarks", "Benchmarks (propagator bench NAME)", {}});
  for (const auto& kind : bench::all_benches()) {
    parts.back().entries.emplace_back(kind.name, kind.help);
  }
  return parts;
}

int show_all(bool as_json) {
  nlohmann::json all;
  const char* gap = "";
  for (const auto& [key, heading, entries] : all_parts()) {
    auto& part = all[nlohmann::json::json_pointer(key)];
    if (!as_json) fmt::print("{}{}\n", std::exchange(gap, "\n"), heading);
    for (const auto& [name, help] : entries) {
      if (as_json) {
        part.push_back({{"name", name}, {"help", help}});
      } else {
        fmt::print("  {:<38} {}\n", name, help);
      }
    }
  }
  if (as_json) fmt::print("{}\n", all.dump(2));
  return 0;
}

}  // namespace

void add_list(CLI::App& app, Action& action) {
  const auto json = std::make_shared<bool>(false);
  auto* verb = app.add_subcommand(
      "list",
      "Tasks, models, simulators, configurations and benchmarks there are");
  verb->add_flag("--json", *json, "Print names and help as JSON");
  verb->callback(
      [json, &action] { action = [json] { return show_all(*json); }; });
}

}  // namespace propagator::cli
