#include "propagator/run/configurations.h"

#include <fmt/format.h>

#include <vector>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/fields/field_source.h"
#include "propagator/run/known_files.h"

namespace propagator::run {

std::string present_config_name(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kFormer[] = {
      {"locate/document-", "locate/lecture-"}};
  for (const auto& [former, present] : kFormer) {
    if (!name.starts_with(former)) continue;
    return fmt::format("{}{}", present, name.substr(former.size()));
  }
  return name;
}

fs::path find_config(const std::string& config) {
  if (fs::is_regular_file(config)) return config;
  const auto asked = present_config_name(config);
  std::vector<std::string> names;
  for (const auto& known : {known_configs(), known_problems()}) {
    for (const auto& [name, path] : known) {
      if (name == config || name == asked) return path;
      names.push_back(name);
    }
  }
  if (fs::exists(fs::path(config) / "config.yaml")) {
    throw UsageError(fmt::format("{} is a run, not a configuration", config),
                     fmt::format("`propagator resume {0}` goes on with it, "
                                 "{0}/config.yaml is its configuration",
                                 config));
  }
  if (fs::is_directory(config)) {
    throw UsageError(fmt::format("{} is a folder, not a file", config),
                     "name a YAML file");
  }
  throw UsageError(
      fmt::format("no configuration file {}", config),
      config::did_you_mean(config, names,
                           "`propagator list` shows those that come with it"));
}

config::Document open_config(const std::string& config) {
  if (!data::is_field_path(config)) {
    return config::Document::from_file(find_config(config));
  }
  config::Document document;
  document.set("task", "forecast", config);
  document.set("data.file", config, config);
  return document;
}

}  // namespace propagator::run
