#include "propagator/physics/fields/field_problem.h"

#include "propagator/core/error.h"

namespace propagator::physics {

CaseRange CaseRange::one() const {
  return {.seed = seed,
          .first = first,
          .count = 1,
          .where = where.dtype(torch::kFloat64)};
}

void FieldTimes::describe(config::Schema& s) {
  s.field("frames", frames,
          {.help = "frames that are kept, the initial values among them",
           .min = 2,
           .max = 1e6,
           .memory = true});
  s.field("time", end, {.help = "time of the last frame", .min = 1e-9});
}

torch::Tensor FieldTimes::at() const {
  return torch::arange(frames, torch::kFloat64) * step();
}

torch::Tensor periodic_points(double low, double high, int64_t n) {
  const double spacing = (high - low) / static_cast<double>(n);
  return low + spacing * torch::arange(n, torch::kFloat64);
}

torch::Tensor cell_centres(double low, double high, int64_t n) {
  const double spacing = (high - low) / static_cast<double>(n);
  return low + spacing * (torch::arange(n, torch::kFloat64) + 0.5);
}

torch::Tensor points_with_ends(double low, double high, int64_t n) {
  return torch::linspace(low, high, n, torch::kFloat64);
}

double relative_l2(const torch::Tensor& a, const torch::Tensor& b) {
  const auto truth = b.to(torch::kFloat64);
  const auto error = (a.to(torch::kFloat64) - truth).square().sum();
  return torch::sqrt(error / truth.square().sum()).item<double>();
}

double largest_drift(const torch::Tensor& channel) {
  const auto cells = channel.to(torch::kFloat64).flatten(2);  // (N, T, cells)
  const auto sums = cells.sum(2);
  const auto scale = cells.select(1, 0).abs().sum(1, /*keepdim=*/true);
  return ((sums - sums.narrow(1, 0, 1)) / scale).abs().max().item<double>();
}

void expect_finite(const torch::Tensor& values, double time,
                   const std::string& hint) {
  if (torch::isfinite(values).all().item<bool>()) return;
  throw NumericalError(
      fmt::format("[field] the solution is not finite at time {:.6g}", time),
      hint);
}

void expect_rising(const std::string& key, double low, double high) {
  if (low <= high) return;
  throw ConfigError(key,
                    fmt::format("expected at least {}, got {}", low, high));
}

}  // namespace propagator::physics
