#include <nlohmann/json.hpp>

#include "propagator/bench/bench.h"
#include "propagator/cli/commands.h"
#include "propagator/data/simulator.h"
#include "propagator/run/known_files.h"
#include "propagator/tasks/registry.h"

namespace propagator::cli {
namespace {

// What stands under one heading.
struct Part {
  std::string key, heading;  // "/models/forecast", "Models of forecast"
  std::vector<std::pair<std::string, std::string>> entries;  // name, help
};

std::vector<Part> all_parts() {
  const auto commented =
      [](const std::map<std::string, std::filesystem::path>& files,
         bool simulated = false) {
        std::vector<std::pair<std::string, std::string>> entries;
        for (const auto& [name, path] : files) {
          if (name.starts_with("data/") != simulated) continue;
          entries.emplace_back(name, run::first_comment(path));
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

}  // namespace

std::string listed(bool as_json) {
  nlohmann::json all;
  std::string text;
  for (const auto& [key, heading, entries] : all_parts()) {
    auto& part = all[nlohmann::json::json_pointer(key)];
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", heading);
    for (const auto& [name, help] : entries) {
      part.push_back({{"name", name}, {"help", help}});
      text += fmt::format("  {:<38} {}\n", name, help);
    }
  }
  return as_json ? all.dump(2) + "\n" : text;
}

void add_list(CLI::App& app, Action& action) {
  const auto json = std::make_shared<bool>(false);
  auto* verb = app.add_subcommand(
      "list",
      "Tasks, models, simulators, configurations and benchmarks there are");
  verb->add_flag("--json", *json, "Print names and help as JSON");
  verb->callback([json, &action] {
    action = [json] {
      fmt::print("{}", listed(*json));
      return 0;
    };
  });
}

}  // namespace propagator::cli
