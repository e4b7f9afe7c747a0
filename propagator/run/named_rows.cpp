#include "propagator/run/named_rows.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/run/configurations.h"
#include "propagator/run/experiment.h"
#include "propagator/run/known_files.h"

namespace propagator::run {
namespace {

// What was asked for, and what of it has nothing to be measured by.
struct FoundRows {
  std::vector<Row> rows;
  std::vector<std::string> without_band;
};

bool has_band(const std::filesystem::path& file) {
  const Experiment experiment(config::Document::from_file(file));
  return experiment.reproduce().max > 0 || experiment.reproduce().also_max > 0;
}

// The configurations that `asked` means: one; all that begin so
// ("locate/lecture-*"); or of a task ("locate") all that have a band.
FoundRows rows_of(const std::string& asked) {
  const bool begins =
      asked.ends_with('*') && asked.find('/') != std::string::npos;
  const auto begin = begins ? asked.substr(0, asked.size() - 1) : asked + "/";
  FoundRows found;
  std::vector<std::string> names;
  for (const auto& [name, file] : known_configs()) {
    names.push_back(name);
    if (name == asked) return {.rows = {{name, file}}, .without_band = {}};
    if (!name.starts_with(begin)) continue;
    if (begins || has_band(file)) {
      found.rows.push_back({name, file});
    } else {
      found.without_band.push_back(name);
    }
  }
  if (!found.rows.empty()) return found;
  if (!found.without_band.empty()) {
    throw UsageError(fmt::format("no row of {} has a band", asked),
                     fmt::format("'{}*' trains all of them", begin));
  }
  throw UsageError(
      fmt::format("no row {}", asked),
      config::did_you_mean(asked, names, "`propagator list` shows them"));
}

}  // namespace

std::vector<Row> find_rows(const std::vector<std::string>& asked) {
  const auto task_of = [](const std::string& row) {
    return row.substr(0, row.find('/'));
  };
  std::vector<Row> rows;
  std::vector<std::string> without_band;
  for (const auto& one : asked) {
    const auto some = rows_of(present_config_name(one));
    without_band.insert(without_band.end(), some.without_band.begin(),
                        some.without_band.end());
    for (const auto& row : some.rows) {
      if (std::ranges::find(rows, row.name, &Row::name) != rows.end()) continue;
      if (!rows.empty() && task_of(row.name) != task_of(rows[0].name)) {
        throw UsageError(
            fmt::format("{} and {} are of two tasks", rows[0].name, row.name),
            "one task at a time");
      }
      rows.push_back(row);
    }
  }
  std::erase_if(without_band, [&](const std::string& name) {
    return std::ranges::count(rows, name, &Row::name) > 0;
  });
  if (!without_band.empty()) {
    log::info(
        "left out, for they have no band (reproduce.max): {}; by name, or as "
        "TASK/PART*, they are trained too",
        fmt::join(without_band, ", "));
  }
  return rows;
}

}  // namespace propagator::run
