#include "propagator/report/figure.h"

#include <algorithm>
#include <cmath>

namespace propagator::report {
namespace {

// All that a panel has colours for, cells and points.
torch::Tensor coloured(const Panel& panel) {
  auto all = torch::tensor(panel.dots.values, torch::kFloat64);
  if (panel.values.defined()) {
    all = torch::cat(
        {all, panel.values.to(torch::kCPU, torch::kFloat64).flatten()});
  }
  return all.masked_select(all.isfinite());
}

std::pair<double, double> log_limits(const PanelRow& row) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const auto& panel : row.panels) {
    const auto values = coloured(panel);
    if (!(values > 0).any().item<bool>()) continue;
    low = std::min(low, values.square().mean().sqrt().item<double>() / 10);
    high = std::max(high, values.max().item<double>());
  }
  if (high == 0) return {0.1, 1};  // nothing to show
  return {std::pow(10, std::floor(std::log10(low))), high};
}

}  // namespace

std::vector<double> numbers(const torch::Tensor& values) {
  const auto flat = values.to(torch::kCPU, torch::kFloat64).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

std::pair<double, double> limits(const PanelRow& row) {
  if (row.range) return *row.range;
  if (row.log) return log_limits(row);
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto& panel : row.panels) {
    const auto values = coloured(panel);
    if (values.numel() == 0) continue;
    low = std::min(low, values.min().item<double>());
    high = std::max(high, values.max().item<double>());
  }
  if (!(low <= high)) return {0, 1};  // nothing to show
  if (row.scale == Scale::kDiverging) {
    const double far = std::max(std::abs(low), std::abs(high));
    return far > 0 ? std::pair(-far, far) : std::pair(-1.0, 1.0);
  }
  // A scale needs some extent.
  return low < high ? std::pair(low, high) : std::pair(low - 0.5, low + 0.5);
}

}  // namespace propagator::report
