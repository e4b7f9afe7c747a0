#include "propagator/physics/detector/event_fit.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "propagator/core/error.h"
#include "propagator/physics/detector/event_fitter.h"

namespace propagator::physics {
namespace {

constexpr double kExactTime = 1e-6;  // ns
constexpr int64_t kGrain = 8;        // events that are worth a thread

std::string shape(const torch::Tensor& t) {
  if (!t.defined()) return "none";
  return fmt::format("({})",
                     fmt::join(t.sizes().begin(), t.sizes().end(), ", "));
}

void check(const EventFitOptions& o) {
  if (o.starts < 1 || o.starts > EventFitter::kLattice) {
    throw UsageError(fmt::format("[event_fit] expected 1 to {} starts, got {}",
                                 EventFitter::kLattice, o.starts));
  }
  if (o.max_iterations < 1 || !(o.tolerance > 0) || !(o.least_jitter > 0)) {
    throw UsageError(fmt::format(
        "[event_fit] expected iterations, tolerance and least jitter above 0, "
        "got {}, {} and {}",
        o.max_iterations, o.tolerance, o.least_jitter));
  }
}

// Times, hits and charges (N, S) as a fit needs them.
struct Reports {
  torch::Tensor times, hits, charges;
  int64_t count, sensors;

  Reports(const Detector& detector, const Events& events, int least_hits)
      : sensors(detector.sensors()) {
    const auto fits = [&](const torch::Tensor& t) {
      return t.defined() && t.dim() == 2 && t.size(1) == sensors;
    };
    if (!fits(events.times) || !fits(events.hits) ||
        events.times.size(0) != events.hits.size(0) ||
        events.hits.scalar_type() != torch::kBool) {
      throw UsageError(fmt::format(
          "[event_fit] expected times and hits (bool) of (N, {}), got {} and "
          "{}",
          sensors, shape(events.times), shape(events.hits)));
    }
    times = events.times.to(torch::kCPU, torch::kFloat64).contiguous();
    hits = events.hits.to(torch::kCPU).contiguous();
    count = times.size(0);
    if (events.charges.defined() && uses_charges(detector)) {
      if (!fits(events.charges) || events.charges.size(0) != count) {
        throw UsageError(
            fmt::format("[event_fit] expected charges of ({}, {}), got {}",
                        count, sensors, shape(events.charges)));
      }
      charges = events.charges.to(torch::kCPU, torch::kFloat64).contiguous();
    }
    for (int64_t n = 0; n < count; ++n) check_event(n, least_hits);
  }

  const double* times_of(int64_t n) const {
    return times.data_ptr<double>() + n * sensors;
  }
  const bool* hits_of(int64_t n) const {
    return hits.data_ptr<bool>() + n * sensors;
  }
  const double* charges_of(int64_t n) const {
    return charges.defined() ? charges.data_ptr<double>() + n * sensors
                             : nullptr;
  }

 private:
  void check_event(int64_t n, int least_hits) const {
    int64_t hit = 0;
    for (int64_t i = 0; i < sensors; ++i) {
      if (!hits_of(n)[i]) continue;
      ++hit;
      if (charges.defined() && !(charges_of(n)[i] > 0)) {
        throw DataError(
            fmt::format("[event_fit] event {}, sensor {}: expected a charge "
                        "above 0, got {}",
                        n, i, charges_of(n)[i]));
      }
      if (std::isfinite(times_of(n)[i])) continue;
      throw DataError(fmt::format(
          "[event_fit] event {}, sensor {}: expected a finite hit time, got {}",
          n, i, times_of(n)[i]));
    }
    if (hit < least_hits) {
      throw DataError(
          fmt::format("[event_fit] event {}: expected at least {} hits, as "
                      "many as unknowns, got {}",
                      n, least_hits, hit));
    }
  }
};

EventFit fit(const Detector& detector, const Events& events,
             const EventFitOptions& options, bool by_likelihood) {
  check(options);
  const Reports reports(detector, events, detector.time_known() ? 3 : 4);
  const int64_t count = reports.count;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EventFit result{torch::empty({count, 3}, torch::kFloat64),
                  torch::zeros({count}, torch::kFloat64),
                  torch::full({count, 3, 3}, nan, torch::kFloat64),
                  torch::empty({count}, torch::kFloat64),
                  torch::empty({count}, torch::kBool),
                  torch::empty({count}, torch::kBool)};
  auto* vertices = result.vertices.data_ptr<double>();
  auto* offsets = result.offsets.data_ptr<double>();
  auto* covariances = result.covariances.data_ptr<double>();
  auto* cost = result.cost.data_ptr<double>();
  auto* converged = result.converged.data_ptr<bool>();
  auto* ambiguous = result.ambiguous.data_ptr<bool>();
  const double speed = detector.light_speed();
  // Squares of paths (m²): in ns², and the inverse of their second derivatives
  // as a covariance.
  const double jitter = detector.options().jitter, area = speed * speed;
  const double in_units = by_likelihood ? 1 : 1 / area;
  const double spread = by_likelihood ? 1 : 2 * jitter * jitter * area;
  const double as_good =
      by_likelihood ? 0.5 : area * std::pow(std::max(jitter, kExactTime), 2);
  at::parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    EventFitter fitter(detector, options);
    const EventObjective& objective =
        by_likelihood ? static_cast<const EventObjective&>(fitter.likelihood())
                      : fitter.residuals();
    Unknowns gradient;
    Square second, inverse;
    for (int64_t n = begin; n < end; ++n) {
      fitter.load(reports.times_of(n), reports.hits_of(n),
                  reports.charges_of(n));
      const auto& minima =
          by_likelihood ? fitter.fit_likelihood() : fitter.fit_times();
      const auto& best = minima.front();
      std::copy_n(best.at.data(), 3, vertices + 3 * n);
      if (fitter.unknowns() > 3) offsets[n] = best.at[3] / speed;
      cost[n] = best.value * in_units;
      converged[n] = best.converged;
      ambiguous[n] = std::any_of(
          minima.begin() + 1, minima.end(),
          [&](const auto& m) { return m.value <= best.value + as_good; });
      objective.derivatives(best.at, gradient, second);
      if (!invert(second, fitter.unknowns(), inverse)) continue;
      for (int k = 0; k < 9; ++k) {
        covariances[9 * n + k] = spread * inverse[k / 3][k % 3];
      }
    }
  });
  return result;
}

}  // namespace

bool uses_charges(const Detector& detector) {
  return detector.options().charge && detector.options().dark == 0;
}

EventFit least_squares(const Detector& detector, const Events& events,
                       const EventFitOptions& options) {
  return fit(detector, events, options, false);
}

EventFit maximum_likelihood(const Detector& detector, const Events& events,
                            const EventFitOptions& options) {
  return fit(detector, events, options, true);
}

LogLikelihood log_likelihood(const Detector& detector, const Events& events,
                             const torch::Tensor& vertices,
                             const torch::Tensor& offsets,
                             const EventFitOptions& options) {
  check(options);
  const Reports reports(detector, events, 0);
  const int64_t count = reports.count;
  if (vertices.dim() != 2 || vertices.size(0) != count ||
      vertices.size(1) != 3 || offsets.dim() != 1 || offsets.size(0) != count) {
    throw UsageError(fmt::format(
        "[log_likelihood] expected vertices ({0}, 3) and times ({0}), got {1} "
        "and {2}",
        count, shape(vertices), shape(offsets)));
  }
  const double speed = detector.light_speed();
  const auto at =
      torch::cat(
          {vertices.to(torch::kCPU, torch::kFloat64),
           offsets.to(torch::kCPU, torch::kFloat64).unsqueeze(1) * speed},
          1)
          .contiguous();
  LogLikelihood result{torch::empty({count}, torch::kFloat64),
                       torch::empty({count, 4}, torch::kFloat64),
                       torch::empty({count, 4, 4}, torch::kFloat64)};
  EventView event(detector);
  const EventLikelihood likelihood(
      event, detector, 4,
      std::max(options.least_jitter, detector.options().jitter));
  for (int64_t n = 0; n < count; ++n) {
    Unknowns point, gradient;
    Square second;
    std::copy_n(at.data_ptr<double>() + 4 * n, 4, point.data());
    event.load(reports.times_of(n), reports.hits_of(n), reports.charges_of(n));
    result.values.data_ptr<double>()[n] =
        -likelihood.derivatives(point, gradient, second);
    std::copy_n(gradient.data(), 4,
                result.gradients.data_ptr<double>() + 4 * n);
    std::copy_n(second.front().data(), 16,
                result.seconds.data_ptr<double>() + 16 * n);
  }
  // From metres of path to ns, and from -log to log.
  const auto scale = torch::tensor({1.0, 1.0, 1.0, speed}, torch::kFloat64);
  result.gradients.mul_(-scale);
  result.seconds.mul_(-torch::outer(scale, scale));
  return result;
}

}  // namespace propagator::physics
