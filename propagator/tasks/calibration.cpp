#include "propagator/tasks/calibration.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace propagator::tasks {
namespace {

constexpr double kReach95 = 1.959963984540054;
constexpr int kLevels = 50;  // equal parts of all shares

std::vector<double> in_percent(std::vector<double> shares) {
  for (auto& share : shares) share *= 100;
  return shares;
}

// Shares of n readings are off by √(p (1 - p) / n), if p is right: along the
// upper edge of where 95 % of them are, and back along the lower one.
report::Series band_of(const CoverageCurve& curve) {
  report::Series band{.name = "95 % band if right",
                      .style = report::Series::Style::kDashed};
  const auto add = [&](double share, double reach) {
    const double off =
        std::sqrt(share * (1 - share) / static_cast<double>(curve.readings));
    band.x.push_back(100 * share);
    band.y.push_back(100 * std::clamp(share + reach * off, 0.0, 1.0));
  };
  for (const double share : curve.predicted) add(share, kReach95);
  const auto& shares = curve.predicted;
  for (auto at = shares.rbegin(); at != shares.rend(); ++at) {
    add(*at, -kReach95);
  }
  return band;
}

}  // namespace

double normal_reach(double share) {
  return std::sqrt(2.0) *
         torch::erfinv(torch::tensor(share, torch::kFloat64)).item<double>();
}

torch::Tensor normal_nll(const torch::Tensor& error,
                         const torch::Tensor& deviation) {
  const auto open = deviation > 0;
  const auto safe = torch::where(open, deviation, torch::ones_like(deviation));
  const auto each = 0.5 * (error / safe).square() + safe.log() +
                    0.5 * std::log(2 * std::numbers::pi);
  const auto counts = open.to(each.scalar_type());
  return (each * counts).sum() / counts.sum().clamp_min(1);
}

double coverage_of(const torch::Tensor& deviations, double predicted) {
  return (deviations <= normal_reach(predicted))
      .to(torch::kFloat64)
      .mean()
      .item<double>();
}

namespace {

template <class Observed>
CoverageCurve curve_of(int64_t readings, Observed&& observed) {
  CoverageCurve curve{.readings = readings};
  for (int n = 1; n < kLevels; ++n) {
    const double share = static_cast<double>(n) / kLevels;
    curve.predicted.push_back(share);
    curve.observed.push_back(observed(share));
  }
  return curve;
}

}  // namespace

CoverageCurve CoverageCurve::of(const torch::Tensor& deviations) {
  return curve_of(deviations.numel(),
                  [&](double share) { return coverage_of(deviations, share); });
}

CoverageCurve CoverageCurve::of_regions(const torch::Tensor& regions) {
  return curve_of(regions.numel(),
                  [&](double share) { return share_within(regions, share); });
}

double share_within(const torch::Tensor& regions, double predicted) {
  return (regions <= predicted).to(torch::kFloat64).mean().item<double>();
}

double CoverageCurve::error() const {
  double sum = 0;
  for (size_t n = 0; n < predicted.size(); ++n) {
    sum += std::abs(observed[n] - predicted[n]);
  }
  return sum / static_cast<double>(predicted.size());
}

report::LinePlot calibration_plot(
    const std::vector<std::pair<std::string, CoverageCurve>>& curves) {
  report::LinePlot plot{
      .title = "Calibration",
      .x = {.label = "predicted to be inside (%)", .first = 0, .last = 100},
      .y = {.label = "found inside (%)", .first = 0, .last = 100}};
  for (const auto& [name, curve] : curves) {
    plot.series.push_back({fmt::format("{}, {} readings", name, curve.readings),
                           in_percent(curve.predicted),
                           in_percent(curve.observed)});
  }
  plot.series.push_back(
      {"as predicted", {0, 100}, {0, 100}, report::Series::Style::kDashed});
  plot.series.push_back(band_of(curves.front().second));
  return plot;
}

}  // namespace propagator::tasks
