#include "propagator/tasks/locate/location_errors.h"

#include <torch/utils.h>

#include <cmath>

#include "propagator/report/figure.h"

namespace propagator::tasks {

using nlohmann::json;
using torch::Tensor;

namespace {

constexpr int64_t kBins = 60;        // of a histogram
constexpr double kLeastEvents = 20;  // for a median worth showing

}  // namespace

Tensor distances(const Tensor& positions, const Tensor& truth) {
  return (positions - truth).square().sum(1).sqrt();
}

json DistanceErrors::to_json() const {
  return {{"resolution", resolution},
          {"median", median},
          {"ninety", ninety},
          {"mean", mean}};
}

double value_at(const Tensor& values, double share) {
  const auto sorted = std::get<0>(values.sort());
  const auto last = static_cast<double>(values.size(0) - 1);
  return sorted[static_cast<int64_t>(std::lround(share * last))].item<double>();
}

std::vector<double> medians_by(const Tensor& classes, const Tensor& values,
                               int64_t count) {
  std::vector<double> medians;
  for (int64_t n = 0; n < count; ++n) {
    const auto those = values.masked_select(classes == n);
    medians.push_back(static_cast<double>(those.size(0)) < kLeastEvents
                          ? std::nan("")
                          : value_at(those, 0.5));
  }
  return medians;
}

json densities(const Tensor& values, double reach) {
  const auto counts = torch::histc(values, kBins, -reach, reach);
  const double width = 2 * reach / kBins;
  return {
      {"reach", reach},
      {"density", report::numbers(
                      counts / (static_cast<double>(values.numel()) * width))}};
}

Tensor pulls_of(const models::Located& located, const Tensor& truth) {
  const auto error = truth - located.position;
  const auto entry = [&](int64_t i, int64_t j) {
    return located.factor.select(1, i).select(1, j);
  };
  std::vector<Tensor> z;
  for (int64_t i = 0; i < 3; ++i) {
    auto left = error.select(1, i);
    for (int64_t j = 0; j < i; ++j) {
      left = left - entry(i, j) * z[static_cast<size_t>(j)];
    }
    z.push_back(left / entry(i, i));
  }
  return torch::stack(z, 1);
}

json describe_pulls(const Tensor& pulls) {
  // 68.27 % of a normal distribution in space lie within this χ².
  constexpr double kCore = 3.5267;
  const auto inside =
      (pulls.square().sum(1) < kCore).to(torch::kFloat64).mean();
  return {{"mean", report::numbers(pulls.mean(0))},
          {"sigma", report::numbers(pulls.std(0))},
          {"within_68", inside.item<double>()},
          {"histogram", densities(pulls, 5)}};
}

DistanceErrors distance_errors(const Tensor& positions, const Tensor& truth) {
  const auto d = distances(positions, truth);
  std::vector<Tensor> roots;
  for (int64_t n = 0; n < truth.size(0); n += kLectureBatch) {
    const auto error = positions.slice(0, n, n + kLectureBatch) -
                       truth.slice(0, n, n + kLectureBatch);
    roots.push_back(error.square().mean().sqrt());
  }
  return {torch::stack(roots).mean().item<double>(), value_at(d, 0.5),
          value_at(d, 0.9), d.mean().item<double>()};
}

}  // namespace propagator::tasks
