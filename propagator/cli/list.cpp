#include <algorithm>
#include <nlohmann/json.hpp>

#include "propagator/bench/bench.h"
#include "propagator/cli/commands.h"
#include "propagator/data/simulator.h"
#include "propagator/run/known_files.h"
#include "propagator/tasks/registry.h"

namespace propagator::cli {
namespace {

struct Entry {
  std::string name, help;
  std::string group = {};  // under a heading of its own there
};

// What stands under one heading.
struct Part {
  std::string key, heading;  // "/models/forecast", "Models of forecast"
  std::vector<Entry> entries;
};

std::vector<Entry> entries_of(const std::map<std::string, std::string>& helps) {
  std::vector<Entry> entries;
  for (const auto& [name, help] : helps) entries.push_back({name, help});
  return entries;
}

// By group, and by name within each.
std::vector<Entry> problems() {
  std::vector<Entry> entries;
  for (const auto& [name, path] : run::known_problems()) {
    entries.push_back({name, run::first_comment(path), run::group_of(path)});
  }
  std::ranges::stable_sort(entries, {}, &Entry::group);
  return entries;
}

std::vector<Part> all_parts() {
  const auto commented =
      [](const std::map<std::string, std::filesystem::path>& files,
         bool simulated = false) {
        std::vector<Entry> entries;
        for (const auto& [name, path] : files) {
          if (name.starts_with("data/") != simulated) continue;
          entries.push_back({name, run::first_comment(path)});
        }
        return entries;
      };
  std::vector<Part> parts{{"/tasks", "Tasks", {}}};
  for (const auto& [name, task] : tasks::all_tasks()) {
    parts[0].entries.push_back({name, task.help});
    parts.push_back(
        {"/models/" + name, "Models of " + name, entries_of(task.models)});
  }
  parts.push_back(
      {"/problems", "Problems (propagator solve NAME)", problems()});
  parts.push_back({"/simulators", "Simulators (propagator data generate NAME)",
                   entries_of(helps_of(data::simulators()))});
  parts.push_back({"/simulations",
                   "Simulations (propagator data generate NAME)",
                   commented(run::known_configs(), /*simulated=*/true)});
  parts.push_back({"/configurations", "Configurations (propagator train NAME)",
                   commented(run::known_configs())});
  parts.push_back({"/benchmarks", "Benchmarks (propagator bench NAME)", {}});
  for (const auto& kind : bench::all_benches()) {
    parts.back().entries.push_back({kind.name, kind.help});
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
    std::string group;
    for (const auto& entry : entries) {
      part.push_back({{"name", entry.name}, {"help", entry.help}});
      if (!entry.group.empty()) part.back()["group"] = entry.group;
      if (entry.group != group) text += fmt::format("  {}:\n", entry.group);
      group = entry.group;
      text += fmt::format("{}{:<38} {}\n", group.empty() ? "  " : "    ",
                          entry.name, entry.help);
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
