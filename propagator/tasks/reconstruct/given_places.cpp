#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"
#include "propagator/nn/interpolating_spline.h"
#include "propagator/tasks/reconstruct/sensors.h"

// Readings of a known field at places that a user brings in a file.

namespace propagator::tasks {
namespace {

using torch::Tensor;

constexpr int64_t kSplinePlaces = 4;  // that a cubic spline needs
constexpr int64_t kPointsAtOnce = 64;

// A variable's places in the truth, which must be around those of the sensors.
void expect_known(const std::string& variable, const Tensor& places,
                  const Tensor& asked, const std::string& path) {
  const double first = places[0].item<double>();
  const double last = places[-1].item<double>();
  const double rounding = kRounding * std::max(last - first, 1e-300);
  const auto beyond =
      ((asked < first - rounding) | (asked > last + rounding)).nonzero();
  if (beyond.numel() == 0) return;
  throw DataError(
      fmt::format("{}: {} of {} sensors are where the truth is not known, the "
                  "first at {} = {:.6g}: its {} goes from {:.6g} to {:.6g}",
                  path, beyond.size(0), asked.size(0), variable,
                  asked[beyond[0][0].item<int64_t>()].item<double>(), variable,
                  first, last),
      "leave them out, or give a truth.file that covers them");
}

// How much each of a variable's places counts at points x (N): (N, n). Cubic
// splines, or straight lines between places that are too few.
Tensor shares_of_places(const Tensor& places, const Tensor& x) {
  const int64_t n = places.size(0);
  if (n == 1) return torch::ones({x.size(0), 1}, x.options());
  if (n >= kSplinePlaces) {
    const auto basis =
        nn::interpolating_basis(autodiff::Jet::constant(x), places).value();
    return torch::mm(basis, nn::interpolating_factors(
                                torch::eye(n, places.options()), places));
  }
  const auto after =
      torch::searchsorted(places, x.contiguous(), false, true).clamp(1, n - 1);
  const auto left = places.index_select(0, after - 1);
  const auto share =
      ((x - left) / (places.index_select(0, after) - left)).unsqueeze(1);
  auto shares = torch::zeros({x.size(0), n}, x.options());
  shares.scatter_(1, (after - 1).unsqueeze(1), 1 - share);
  return shares.scatter_(1, after.unsqueeze(1), share);
}

// The truth at points (N, D) inside its grid: (N, F).
Tensor truth_at(const GriddedFields& truth, const Tensor& points) {
  const auto& along = truth.grid.along;
  const int64_t fields = truth.fields.size(1);
  std::vector<Tensor> answers;
  for (const auto& some : points.split(kPointsAtOnce)) {
    const auto shares = [&](size_t v) {
      const auto x = some.select(1, static_cast<int64_t>(v));
      return shares_of_places(along[v], x.clamp(along[v][0].item<double>(),
                                                along[v][-1].item<double>()));
    };
    // Variable after variable, the first of them first.
    auto left = torch::mm(
        shares(0), truth.fields.reshape({along[0].size(0), -1}));  // (N, …)
    for (size_t v = 1; v < along.size(); ++v) {
      left = torch::bmm(shares(v).unsqueeze(1),
                        left.reshape({some.size(0), along[v].size(0), -1}));
    }
    answers.push_back(left.reshape({some.size(0), fields}));
  }
  return torch::cat(answers);
}

}  // namespace

SensorSplit sensors_at_places(const pde::Problem& problem,
                              const std::optional<GriddedFields>& truth,
                              const SensorOptions& options,
                              const std::vector<int64_t>& measured,
                              int64_t seed) {
  const auto& path = options.positions;
  const auto& names = problem.symbols.variables;
  const auto points = data::read_points(path, names).flatten(0, -2).clone();
  expect_inside(problem, points, path);
  for (size_t v = 0; truth && v < names.size(); ++v) {
    expect_known(names[v], truth->grid.along[v],
                 points.select(1, static_cast<int64_t>(v)), path);
  }
  const auto fields =
      truth ? truth_at(*truth, points) : solution_at(problem, points);
  return with_noise(
      divide({points, measured_only(fields, measured)}, path, options, seed),
      options.noise, seed);
}

}  // namespace propagator::tasks
