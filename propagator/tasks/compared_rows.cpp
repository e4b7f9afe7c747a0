#include "propagator/tasks/compared_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace propagator::tasks {
namespace {

// "wave" of wave-kan and wave-pinn; the first one if they have nothing in
// common.
std::string common_beginning(const std::string& a, const std::string& b) {
  auto common = a;
  while (!(b + "-").starts_with(common + "-")) {
    const auto cut = common.rfind('-');
    if (cut == std::string::npos) return a;
    common.resize(cut);
  }
  return common;
}

// The row's name, which has the model's at its end if it is a paper's.
std::string title_of(const ReproducedRow& row, const std::string& model) {
  auto title = row.name;
  if (!title.ends_with("-" + model)) title += fmt::format(" ({})", model);
  const std::string mode = row.summary.at("mode");
  return mode == "honest" ? title : fmt::format("{}, {}", title, mode);
}

}  // namespace

std::vector<ComparedRows> compared_rows(std::span<const ReproducedRow> rows) {
  std::vector<ComparedRows> all;
  for (const auto& row : rows) {
    auto maps = row.maps();
    if (!maps) continue;
    const auto remark =
        fmt::format("{} {}", row.summary.at("metric").get<std::string>(),
                    report::scientific(row.summary.at("value")));
    auto same = std::ranges::find_if(all, [&](const ComparedRows& one) {
      return one.rows.front().maps.subject == maps->subject;
    });
    if (same == all.end()) {
      same = all.insert(same, {row.name, row.name});
    }
    same->name = common_beginning(same->name, row.name);
    same->rows.push_back(
        {title_of(row, maps->model), remark, std::move(*maps)});
  }
  std::set<std::string> taken;
  for (auto& [first, name, same] : all) {
    if (!taken.insert(name).second) name = first;
  }
  return all;
}

}  // namespace propagator::tasks
