#include "propagator/report/field_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace propagator::report {
namespace {

// Panels in one line at most.
constexpr size_t kColumns = 5;

// Lines of nearly equal length.
std::vector<PanelRow> in_lines(const PanelRow& all) {
  const size_t count = all.panels.size();
  const size_t lines = (count + kColumns - 1) / kColumns;
  const size_t columns = (count + lines - 1) / lines;
  std::vector<PanelRow> rows;
  for (size_t begin = 0; begin < count; begin += columns) {
    const size_t end = std::min(begin + columns, count);
    auto row = all;
    row.panels.assign(all.panels.begin() + static_cast<int64_t>(begin),
                      all.panels.begin() + static_cast<int64_t>(end));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

HeatMaps figure_of(const std::string& title, const FieldMaps& maps) {
  HeatMaps figure{.title = title, .x = maps.x, .y = maps.y};
  figure.panel_width /= std::sqrt(maps.aspect);
  figure.panel_height *= std::sqrt(maps.aspect);
  return figure;
}

HeatMaps compare(const std::string& title,
                 std::span<const ComparedMaps> answers) {
  const auto known = std::ranges::find_if(
      answers,
      [](const ComparedMaps& answer) { return answer.maps.truth.defined(); });
  const bool any_known = known != answers.end();
  const auto& first = answers.front().maps;
  auto figure = figure_of(title, first);
  std::vector<std::vector<PanelRow>> lines;  // of each kind of row
  for (size_t f = 0; f < first.names.size(); ++f) {
    const auto at = static_cast<int64_t>(f);
    PanelRow fields{.bar_label = first.names[f]};
    PanelRow errors{.log = true};
    if (any_known) {
      const auto& truth = known->maps;
      errors.bar_label =
          fmt::format("|{} - {}|", first.names[f], truth.truth_name);
      fields.panels.push_back({truth.truth_name, truth.truth[at]});
      fields.range = limits(fields);
      errors.panels.push_back({});  // nothing is below the truth
    }
    for (const auto& [name, remark, maps] : answers) {
      fields.panels.push_back({name, maps.answer[at]});
      errors.panels.push_back(
          maps.truth.defined()
              ? Panel{remark, (maps.answer[at] - maps.truth[at]).abs()}
              : Panel{});
    }
    if (!any_known) fields.range = limits(fields);
    errors.range = limits(errors);
    lines.push_back(in_lines(fields));
    if (any_known) lines.push_back(in_lines(errors));
  }
  for (size_t line = 0; line < lines.front().size(); ++line) {
    for (const auto& kind : lines) figure.rows.push_back(kind[line]);
  }
  return figure;
}

}  // namespace propagator::report
