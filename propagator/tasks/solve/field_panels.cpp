#include "propagator/tasks/solve/field_panels.h"

#include <fmt/format.h>
#include <torch/utils.h>

namespace propagator::tasks {
namespace {

using report::PanelRow;
using torch::Tensor;

// Letters of an equation that fit beside a row of panels.
constexpr size_t kLongestLabel = 26;

// Pictures (S, R, C), each with its title.
PanelRow row_of_pictures(const std::string& label, const std::string& bar_label,
                         const Tensor& pictures,
                         const std::vector<std::string>& titles) {
  PanelRow row{.label = label, .bar_label = bar_label};
  for (size_t s = 0; s < titles.size(); ++s) {
    row.panels.push_back({titles[s], pictures[static_cast<int64_t>(s)]});
  }
  return row;
}

}  // namespace

Tensor FieldPanels::part(const Tensor& all) const {
  const auto count = std::ssize(places);
  return all.narrow(0, number * count, count);
}

PanelRow FieldPanels::row_of(const std::string& label,
                             const std::string& bar_label,
                             const Tensor& pictures, bool with_dots) const {
  // At one place it is the picture's name that tells, not the place.
  const bool one = places.size() == 1;
  auto row = row_of_pictures(one ? "" : label, bar_label, pictures,
                             one ? std::vector{label} : places);
  for (size_t s = 0; with_dots && s < dots.size(); ++s) {
    row.panels[s].dots = dots[s];
  }
  return row;
}

std::vector<PanelRow> FieldPanels::fields() const {
  const bool has_truth = maps.truth.defined();
  const auto mine = part(maps.answer);
  std::vector<PanelRow> rows{row_of("solution", field, mine, !has_truth)};
  if (!has_truth) return rows;
  const auto truth = part(maps.truth);
  auto known = row_of(maps.truth_name, field, truth, true);
  if (places.size() == 1) {
    rows[0].panels.push_back(known.panels[0]);
  } else {
    auto both = torch::cat({mine, truth});
    both = both.masked_select(both.isfinite());
    rows[0].range =
        known.range = {both.min().item<double>(), both.max().item<double>()};
    rows.push_back(known);
  }
  rows.push_back(
      row_of("solution - " + maps.truth_name, "error", mine - truth, true));
  rows.back().scale = report::Scale::kDiverging;
  return rows;
}

std::vector<PanelRow> FieldPanels::uncertainty(const Tensor& deviations) const {
  std::vector<PanelRow> rows{
      row_of("predicted deviation", field, deviations, true)};
  rows[0].log = true;
  if (!maps.truth.defined()) return rows;
  auto error = row_of(fmt::format("|solution - {}|", maps.truth_name), field,
                      (part(maps.answer) - part(maps.truth)).abs(), true);
  PanelRow all{.panels = error.panels, .log = true};
  for (const auto& panel : rows[0].panels) all.panels.push_back(panel);
  if (places.size() == 1) {
    rows[0].panels = all.panels;
  } else {
    error.log = true;
    error.range = rows[0].range = limits(all);
    rows.insert(rows.begin(), error);
  }
  return rows;
}

std::vector<PanelRow> residual_panels(
    const Tensor& residuals, const std::vector<pde::Expression>& equations,
    const std::vector<std::string>& places) {
  const auto count = std::ssize(places);
  std::vector<PanelRow> rows;
  if (count == 1) {
    std::vector<std::string> texts;
    for (const auto& equation : equations) texts.push_back(equation.text());
    rows.push_back(row_of_pictures("", "residual", residuals, texts));
  } else {
    for (size_t n = 0; n < equations.size(); ++n) {
      const auto text = equations[n].text();
      rows.push_back(row_of_pictures(
          text.size() > kLongestLabel ? fmt::format("equation {}", n + 1)
                                      : text,
          "residual",
          residuals.narrow(0, static_cast<int64_t>(n) * count, count), places));
    }
  }
  for (auto& row : rows) row.scale = report::Scale::kDiverging;
  return rows;
}

}  // namespace propagator::tasks
