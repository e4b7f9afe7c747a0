#pragma once

#include <string>
#include <utility>
#include <vector>

#include "propagator/report/figure.h"

namespace propagator::tasks {

// The central interval of a normal number that holds this share of it goes so
// many standard deviations either way: √2 erf⁻¹(share).
double normal_reach(double share);

// Of readings that lie |error| / predicted standard deviation = `deviations`
// (n) off, the share inside the interval that is to hold `predicted` of them.
double coverage_of(const torch::Tensor& deviations, double predicted);

// Minus the log likelihood of errors under normal numbers of these deviations,
//   1/2 (error/deviation)² + log deviation + 1/2 log 2π,
// averaged over those whose deviation is not 0: the others leave nothing to
// find. Differentiable in both; works without the host.
torch::Tensor normal_nll(const torch::Tensor& error,
                         const torch::Tensor& deviation);

// Of truths that lie just on the edges of regions that are to hold these shares
// `regions` (n), how many are inside the region of `predicted`.
double share_within(const torch::Tensor& regions, double predicted);

// How often readings are inside the intervals that were predicted for them, for
// intervals of all sizes.
struct CoverageCurve {
  std::vector<double> predicted = {}, observed = {};  // shares
  int64_t readings = 0;

  // Of deviations (n), one at least.
  static CoverageCurve of(const torch::Tensor& deviations);
  // Of such shares (n), one at least.
  static CoverageCurve of_regions(const torch::Tensor& regions);
  // Mean |observed - predicted|.
  double error() const;
};

// How often truths have each rank among `draws` samples, as shares `ranks` (n)
// of the samples below them: equal parts of all ranks, each over what it would
// be if every rank were as likely, so that 1 is right.
std::vector<double> rank_histogram(const torch::Tensor& ranks, int64_t draws);

// Histograms of so many truths by name, with the band in which 95 % of the
// parts lie if all ranks are as likely.
report::LinePlot rank_plot(
    const std::vector<std::pair<std::string, std::vector<double>>>& histograms,
    int64_t truths);

// Curves by name, with the diagonal, and the band in which 95 % of shares of so
// many readings lie about it, for the first of them.
report::LinePlot calibration_plot(
    const std::vector<std::pair<std::string, CoverageCurve>>& curves);

}  // namespace propagator::tasks
