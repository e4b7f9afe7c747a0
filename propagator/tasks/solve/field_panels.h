#pragma once

#include <string>
#include <vector>

#include "propagator/pde/text/expression.h"
#include "propagator/report/field_maps.h"

namespace propagator::tasks {

// The maps of one field at S places along what is held, with the points that
// are drawn over each; one place of an empty name where nothing is held.
struct FieldPanels {
  std::string field;
  const report::FieldMaps& maps;  // of all fields, S maps of each
  int64_t number;                 // of the field
  std::vector<std::string> places;
  std::vector<report::Dots> dots = {};  // one a place, or none of all

  // The answer, the truth and the difference between them, at one place beside
  // each other, at several each in a row of its own. Points are drawn over
  // truth and difference, over the answer where there is no truth.
  std::vector<report::PanelRow> fields() const;
  // |error| beside the standard deviation that is predicted, (S, R, C), on one
  // logarithmic scale; the latter alone where there is no truth.
  std::vector<report::PanelRow> uncertainty(
      const torch::Tensor& deviations) const;

 private:
  // The field's part of maps (F S, R, C).
  torch::Tensor part(const torch::Tensor& all) const;
  report::PanelRow row_of(const std::string& label,
                          const std::string& bar_label,
                          const torch::Tensor& pictures, bool with_dots) const;
};

// The residuals of the equations, (equations · S, R, C): at one place all
// beside each other, at several a row for each.
std::vector<report::PanelRow> residual_panels(
    const torch::Tensor& residuals,
    const std::vector<pde::Expression>& equations,
    const std::vector<std::string>& places);

}  // namespace propagator::tasks
