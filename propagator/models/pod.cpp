#include "propagator/models/pod.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/data/gridded.h"
#include "propagator/nn/interpolating_spline.h"
#include "propagator/nn/ridge.h"
#include "propagator/nn/spline.h"

namespace propagator::models {
namespace {

using autodiff::Jet;
using torch::Tensor;

// Factors of B-splines of the mean and the modes, (n₁, …, K, F), and of time,
// (J, K), whose first column is that of the mean.
constexpr const char* kModes = "modes";
constexpr const char* kInTime = "coefficients";
constexpr int64_t kModeCount = -1;  // K, in a shape
constexpr int64_t kFirstAxis = -2;  // and the sizes of the axes
constexpr int64_t kTimeDegree = 3;
constexpr int64_t kFewestPlaces = 4;  // of a cubic spline
// Modes of less than this share of the first one's variance are rounding.
constexpr double kLeastVariance = 1e-12;

std::string axis_name(size_t number) { return fmt::format("axis{}", number); }

Tensor along_variable(const Tensor& points, int64_t variable) {
  return points.select(-1, variable);
}

}  // namespace

void PodOptions::describe(config::Schema& s) {
  s.field("file", file,
          {.help = "whole snapshots of a like flow: an .h5 or .npz with each "
                   "variable's places and each field; beside the configuration",
           .file = true});
  s.field("simulator", simulator,
          {.help = "what computes model.file where it is not there yet; "
                   "`propagator list` shows simulators",
           .later = true});
  s.field(
      "simulation", simulation,
      {.help = "keys of that simulator, as wake.reynolds=110", .later = true});
  s.field("modes", modes,
          {.help = "modes of the snapshots, at most", .min = 1, .max = 1000});
  s.field("intervals", intervals,
          {.help = "intervals of time of the cubic splines that modes follow",
           .min = 1,
           .max = 10000});
}

void PodOptions::validate(const FieldDomain& domain) const {
  if (file.empty()) {
    throw ConfigError("model.file", "pod needs whole snapshots of a like flow",
                      "`propagator data generate wake` writes some");
  }
  if (domain.time < 0 || domain.variables() < 2) {
    throw ConfigError("model.name", "pod needs a problem in space and time",
                      "choose gaussian_process or radial_basis");
  }
  if (domain.variables() != std::ssize(domain.variable_names)) {
    throw ConfigError("model.name", "pod has no periodic conditions",
                      "set hard_constraints=no");
  }
  if (!domain.log_variances_of.empty()) {
    throw ConfigError("loss.readings", "pod has no variance to predict",
                      "set loss.readings=mse, or model.name=gaussian_process");
  }
}

std::shared_ptr<FieldNet> PodOptions::make(const FieldDomain& domain) const {
  return std::make_shared<Pod>(*this, domain);
}

Pod::Pod(const PodOptions& options, const FieldDomain& domain)
    : FittedNet(domain), options_(options) {
  std::vector<int64_t> shape;
  for (int64_t v = 0; v < domain.variables(); ++v) {
    if (v == domain.time) continue;
    const int64_t size = kFirstAxis - std::ssize(space_);
    declare(axis_name(space_.size()), {size});
    space_.push_back(v);
    shape.push_back(size);
  }
  shape.insert(shape.end(), {kModeCount, domain.fields});
  declare(kModes, shape);
  declare(kInTime, {options.intervals + kTimeDegree, kModeCount});
}

Pod::Modes Pod::modes_of(const data::Gridded& snapshots) const {
  auto shape = snapshots.shape();
  shape.push_back(domain().fields);
  const auto all = snapshots.fields.reshape(shape)
                       .movedim(domain().time, 0)
                       .flatten(1, -2);  // (T, places, F)
  const auto mean = all.mean(0, /*keepdim=*/true);
  const auto spread =
      (all - mean).square().mean(torch::IntArrayRef{0, 1}).sqrt();  // (F)
  const auto unit = torch::where(spread > 0, spread, torch::ones_like(spread));
  const auto x = ((all - mean) / unit).flatten(1);  // (T, places F)
  const auto [values, vectors] = torch::linalg_eigh(torch::mm(x, x.t()));
  const int64_t count =
      std::min(options_.modes,
               (values > values[-1] * kLeastVariance).sum().item<int64_t>());
  // Vᵀ X has the norms √λ, and the times of a snapshot V √T then.
  const auto first = vectors.slice(1, all.size(0) - count).flip(1);
  const auto modes =
      torch::mm(first.t(), x) / std::sqrt(static_cast<double>(all.size(0)));
  const double whole = values.sum().item<double>();
  return {
      torch::cat(
          {mean, modes.view({count, all.size(1), domain().fields}) * unit}),
      whole > 0
          ? values.slice(0, all.size(0) - count).sum().item<double>() / whole
          : 1};
}

void Pod::expect_cover(const data::Gridded& snapshots) const {
  if (snapshots.along[static_cast<size_t>(domain().time)].size(0) < 2) {
    throw DataError(
        fmt::format("{}: expected 2 snapshots or more", options_.file));
  }
  for (const int64_t v : space_) {
    const auto at = static_cast<size_t>(v);
    const auto& places = snapshots.along[at];
    const int64_t n = places.size(0);
    const auto& name = domain().variable_names[at];
    if (n < kFewestPlaces) {
      throw DataError(
          fmt::format("{}: expected {} places of {} or more, got {}",
                      options_.file, kFewestPlaces, name, n));
    }
    // A step beyond the ends a spline may go on.
    const double first = (2 * places[0] - places[1]).item<double>();
    const double last = (2 * places[n - 1] - places[n - 2]).item<double>();
    if (first > domain().low[at] || last < domain().high[at]) {
      throw DataError(
          fmt::format("{}: its snapshots do not cover {} from {:.6g} to {:.6g}",
                      options_.file, name, domain().low[at], domain().high[at]),
          "modes are known where the snapshots are");
    }
  }
}

void Pod::take_modes(const data::Gridded& snapshots,
                     const autodiff::Observations& read) {
  const auto modes = modes_of(snapshots);
  auto values = modes.values / read.scale;  // (K, places, F)
  values[0] -= read.shift / read.scale;
  Sizes sizes{{kModeCount, values.size(0)}};
  std::vector<int64_t> shape;
  std::vector<Tensor> axes;
  for (size_t a = 0; a < space_.size(); ++a) {
    const auto v = static_cast<size_t>(space_[a]);
    const double low = domain().low[v], high = domain().high[v];
    axes.push_back((snapshots.along[v] - low) * (2 / (high - low)) - 1);
    shape.push_back(axes.back().size(0));
    sizes[kFirstAxis - static_cast<int64_t>(a)] = shape.back();
  }
  resize(sizes);
  shape.insert(shape.end(), {values.size(0), domain().fields});
  auto factors = values.transpose(0, 1).reshape(shape);
  for (size_t a = 0; a < axes.size(); ++a) {
    const auto axis = static_cast<int64_t>(a);
    set(axis_name(a), axes[a]);
    factors = nn::interpolating_factors(factors.movedim(axis, 0).contiguous(),
                                        axes[a])
                  .movedim(0, axis);
  }
  set(kModes, factors);
  log::info("{} modes have {:.5g} % of the snapshots' variance",
            values.size(0) - 1, 100 * modes.share);
}

void Pod::fit(const autodiff::Observations& read) {
  const auto snapshots = data::read_gridded(
      options_.file, domain().variable_names, domain().field_names);
  expect_cover(snapshots);
  take_modes(snapshots, read);
  const auto points = Jet::constant(read.points.to(places().device()));
  const auto modes = modes_at(points).value().cpu();  // (M, K, F)
  const auto times = times_at(points).value().cpu();  // (M, J)
  std::vector<Tensor> rows, rest;
  for (int64_t f = 0; f < domain().fields; ++f) {
    const auto [sensors, y] = ReadColumn::of(read.readings.select(1, f));
    const auto there = modes.select(2, f).index_select(0, sensors);  // (n, K)
    const auto then = times.index_select(0, sensors);
    rows.push_back((then.unsqueeze(2) * there.slice(1, 1).unsqueeze(1))
                       .flatten(1));  // (n, J (K - 1))
    rest.push_back(y - there.select(1, 0));
  }
  auto in_time = torch::ones({times.size(1), modes.size(1)}, torch::kFloat64);
  if (modes.size(1) > 1) {
    const auto found = nn::fit_ridge(torch::cat(rows), torch::cat(rest));
    in_time.slice(1, 1).copy_(found.factors.view({times.size(1), -1}));
    log::info("coefficients of the modes: ridge {:.3g}", found.ridge);
  }
  set(kInTime, in_time);
}

Jet Pod::times_at(const Jet& points) const {
  const auto knots = nn::uniform_knots(options_.intervals, kTimeDegree, -1, 1,
                                       get(kInTime).options());
  return nn::spline_basis(points.linear([&](const Tensor& x) {
    return along_variable(x, domain().time);
  }),
                          knots, kTimeDegree);
}

Jet Pod::modes_at(const Jet& points) const {
  // Axis after axis, the first of them first: (R; N, n₂, …, K F).
  const auto& factors = get(kModes);
  const int64_t last = factors.size(-1) * factors.size(-2);
  const auto basis_of = [&](size_t a) {
    return nn::interpolating_basis(points.linear([&](const Tensor& x) {
      return along_variable(x, space_[a]);
    }),
                                   get(axis_name(a)));
  };
  const int64_t axes = std::ssize(space_);
  auto left = basis_of(0).linear([&](const Tensor& b) {
    return torch::matmul(b, factors.reshape({factors.size(0), -1}));
  });
  for (int64_t a = 1; a < axes; ++a) {
    const auto number = static_cast<size_t>(a);
    const int64_t size = get(axis_name(number)).size(0);
    const auto parted = left.linear([&](const Tensor& rows) {
      return rows.reshape({rows.size(0), rows.size(1), size, -1});
    });
    const auto basis = basis_of(number).linear(
        [](const Tensor& rows) { return rows.unsqueeze(-1); });
    left = autodiff::sum(parted * basis, -2, /*keepdim=*/false);
  }
  return left.linear([&](const Tensor& rows) {
    return rows.reshape({rows.size(0), rows.size(1), last / factors.size(-1),
                         factors.size(-1)});
  });
}

int64_t Pod::width() const {
  const auto& factors = get(kModes);
  return std::max<int64_t>(1, factors.numel() / factors.size(0));
}

Jet Pod::answer(const Jet& points) {
  const auto in_time = times_at(points).linear([&](const Tensor& b) {
    return torch::matmul(b, get(kInTime)).unsqueeze(-1);
  });
  return autodiff::sum(in_time * modes_at(points), -2, /*keepdim=*/false);
}

}  // namespace propagator::models
