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
constexpr int64_t kRankParts = 20;

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

std::vector<double> rank_histogram(const torch::Tensor& ranks, int64_t draws) {
  // Ranks 0 … draws, of which a part may have one more than another.
  const int64_t all = draws + 1, parts = std::min(kRankParts, all);
  const auto rank =
      (ranks * static_cast<double>(draws)).round().to(torch::kInt64);
  const auto counts = torch::bincount(rank, {}, all).to(torch::kFloat64);
  std::vector<double> found(static_cast<size_t>(parts)), wide(found);
  for (int64_t n = 0; n < all; ++n) {
    const auto part = static_cast<size_t>(n * parts / all);
    found[part] += counts[n].item<double>();
    wide[part] += 1;
  }
  const double one =
      static_cast<double>(ranks.numel()) / static_cast<double>(all);
  for (size_t n = 0; n < found.size(); ++n) found[n] /= one * wide[n];
  return found;
}

report::LinePlot rank_plot(
    const std::vector<std::pair<std::string, std::vector<double>>>& histograms,
    int64_t truths) {
  report::LinePlot plot{
      .title = "Ranks of the truth",
      .x = {.label = "samples below the truth (%)", .first = 0, .last = 100},
      .y = {.label = "how often, over what is right"}};
  double highest = 0;
  for (const auto& [name, histogram] : histograms) {
    report::Series series{.name = name};
    const auto parts = static_cast<double>(histogram.size());
    for (size_t n = 0; n < histogram.size(); ++n) {
      const auto at = static_cast<double>(n);
      // The top of a bar, from edge to edge.
      for (const double edge : {at, at + 1}) {
        series.x.push_back(100 * edge / parts);
        series.y.push_back(histogram[n]);
      }
      highest = std::max(highest, histogram[n]);
    }
    plot.series.push_back(std::move(series));
  }
  const auto parts = static_cast<double>(histograms.front().second.size());
  const double off =
      kReach95 * std::sqrt((parts - 1) / static_cast<double>(truths));
  plot.bands.push_back({.name = "95 % of them if right",
                        .x = {0, 100},
                        .low = {1 - off, 1 - off},
                        .high = {1 + off, 1 + off}});
  plot.y.first = 0;
  plot.y.last = std::max(2.0, 1.1 * highest);
  return plot;
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
