#pragma once

#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "propagator/core/config.h"

namespace propagator {

// One of several things that a configuration chooses by name, such as the
// models of a task: what it is, and how its options are made.
template <class Options>
struct Kind {
  std::string help;
  std::function<std::unique_ptr<Options>()> options;
};

template <class Options>
using Kinds = std::map<std::string, Kind<Options>>;

// Names and helps, for lists.
template <class Entry>
std::map<std::string, std::string> helps_of(
    const std::map<std::string, Entry>& kinds) {
  std::map<std::string, std::string> helps;
  for (const auto& [name, kind] : kinds) helps[name] = kind.help;
  return helps;
}

// The entry that the document names under `key`, or else `otherwise`.
// ConfigError, with the place, if there is none of that name.
template <class Entry>
const Entry& find_kind(const std::map<std::string, Entry>& kinds,
                       const config::Document& document, const std::string& key,
                       const std::string& otherwise) {
  const auto name = document.get(key).value_or(otherwise);
  const auto found = kinds.find(name);
  if (found != kinds.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, kind] : kinds) names.push_back(known);
  document.rethrow_with_place(ConfigError(
      key,
      fmt::format("expected one of {}, got '{}'", fmt::join(names, ", "), name),
      config::did_you_mean(name, names, "`propagator list` shows them")));
}

}  // namespace propagator
