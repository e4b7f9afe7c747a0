#include "propagator/kernels/greens/green_function.h"

#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

namespace propagator::kernels {
namespace {

using torch::Tensor;

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr double kPi = std::numbers::pi;

// `x` where it is seen and 1 elsewhere: what is hidden has a finite logarithm,
// and so no gradient that is none.
Tensor safe(const Tensor& x, const Tensor& seen) {
  return torch::where(seen, x, torch::ones_like(x));
}

Tensor hide(const Tensor& logits, const Tensor& seen) {
  return logits.masked_fill(seen.logical_not(), kNever);
}

Tensor log_heat(const GreenFunction& g, const Tensor& rate, const Tensor& dx,
                const Tensor& dt) {
  const auto all = dt + g.time_core;
  const auto seen = dt.ge(0).logical_and(all > 0);
  const auto spread = 4 * rate * safe(all, seen);
  auto logits = -dx.square().sum(-1) / spread;
  if (g.scale == GreenScale::kFull) {
    logits = logits -
             0.5 * static_cast<double>(g.dimensions) * torch::log(kPi * spread);
  }
  return hide(logits, seen);
}

Tensor log_wave(const GreenFunction& g, const Tensor& rate, const Tensor& dx,
                const Tensor& dt) {
  const bool full = g.scale == GreenScale::kFull;
  const auto all = dt + g.time_core;
  const auto square = dx.square().sum(-1);
  const auto reach = rate * all;
  auto seen = dt.ge(0).logical_and(all > 0).logical_and(
      square <= reach.detach().square());
  Tensor logits;
  if (g.dimensions == 1) {
    logits = full ? -torch::log(2 * rate) + torch::zeros_like(square)
                  : 0 * rate + torch::zeros_like(square);
  } else if (g.dimensions == 2) {
    const double core2 = g.core * g.core;
    const auto root = safe(reach.square() - square + core2, seen).sqrt();
    const auto outer = torch::sqrt(reach.square() + core2) + g.core;
    logits = full ? torch::log(outer / (2 * kPi * rate.square() *
                                        safe(all, seen) * root))
                  : torch::log(g.core / root);
  } else {
    const auto inner = reach.detach() - g.core;
    seen = seen.logical_and(inner.le(0).logical_or(square >= inner.square()));
    const auto safe_reach = safe(reach, seen);
    const auto width = safe_reach.clamp_max(g.core);
    const auto volume =
        4 * kPi / 3 * width *
        (3 * safe_reach * (safe_reach - width) + width.square());
    logits = full ? torch::log(safe(all, seen) / volume) : 0 * volume;
  }
  return hide(logits, seen);
}

Tensor log_poisson(const GreenFunction& g, const Tensor& dx) {
  const bool full = g.scale == GreenScale::kFull;
  const auto square = dx.square().sum(-1) + g.core * g.core;
  if (g.dimensions == 3) {
    return -0.5 * torch::log(square) +
           (full ? -std::log(4 * kPi) : std::log(g.core));
  }
  const auto seen = square < g.radius * g.radius;
  const auto rho =
      torch::where(seen, square, torch::full_like(square, 0)).sqrt();
  if (g.dimensions == 1) {
    return hide(torch::log((g.radius - rho) / (full ? 2 : g.radius - g.core)),
                seen);
  }
  const double over = full ? 2 * kPi : std::log(g.radius / g.core);
  return hide(torch::log(torch::log(g.radius / rho) / over), seen);
}

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument("[green] " + what);
}

bool positive(double x) { return x > 0 && std::isfinite(x); }

// Rows that are not read are put where numbers are finite.
Tensor places(const Tensor& coordinates, bool global, const Tensor& hidden) {
  auto at = coordinates.detach();
  if (hidden.defined()) {
    // One set of places may be that of all cases.
    at = at.expand({hidden.size(0), -1, -1})
             .masked_fill(hidden.unsqueeze(-1), 0);
  }
  if (!global) return at;
  at = at.clone();
  at.select(1, 0).zero_();
  return at;
}

}  // namespace

bool GreenFunction::in_time() const {
  return kind != GreenKind::kNone && kind != GreenKind::kPoisson;
}

int64_t GreenFunction::parameters() const {
  if (!in_time()) return 0;
  return kind == GreenKind::kAdvectionDiffusion ? 1 + dimensions : 1;
}

int64_t GreenFunction::coordinates() const {
  if (kind == GreenKind::kNone) return 0;
  return dimensions + (in_time() ? 1 : 0);
}

GreenSettings GreenFunction::settings() const {
  GreenSettings s;
  s.dimensions = static_cast<int>(dimensions);
  s.full = scale == GreenScale::kFull;
  s.core = core;
  s.radius = radius;
  s.time_core = time_core;
  using F = GreenForm;
  const F waves[] = {F::kWave1, F::kWave2, F::kWave3};
  const F poissons[] = {F::kPoisson1, F::kPoisson2, F::kPoisson3};
  switch (kind) {
    case GreenKind::kNone:
      break;
    case GreenKind::kHeat:
    case GreenKind::kAdvectionDiffusion:
      s.form = F::kHeat;
      break;
    case GreenKind::kWave:
      s.form = waves[dimensions - 1];
      break;
    case GreenKind::kPoisson:
      s.form = poissons[dimensions - 1];
      break;
  }
  return s;
}

void GreenFunction::check() const {
  if (kind == GreenKind::kNone) return;
  if (dimensions < 1 || dimensions > 3) {
    refuse(fmt::format("expected 1, 2 or 3 dimensions, got {}", dimensions));
  }
  if (!(time_core >= 0 && std::isfinite(time_core))) {
    refuse(fmt::format("expected a time_core of 0 or more, got {}", time_core));
  }
  if (!(core >= 0 && std::isfinite(core))) {
    refuse(fmt::format("expected a core of 0 or more, got {}", core));
  }
  const bool singular =
      (kind == GreenKind::kWave || kind == GreenKind::kPoisson) &&
      dimensions > 1;
  if (singular && !positive(core)) {
    refuse(
        fmt::format("expected a core above 0 in {} dimensions, where the "
                    "exact function is not finite, got {}",
                    dimensions, core));
  }
  if (kind == GreenKind::kPoisson && dimensions < 3 &&
      !(positive(radius) && radius > core)) {
    refuse(fmt::format("expected a radius above the core {}, got {}", core,
                       radius));
  }
}

Tensor log_green(const GreenFunction& green, const Tensor& parameters,
                 const Tensor& dx, const Tensor& dt) {
  green.check();
  const int64_t wanted = green.parameters();
  const int64_t given = parameters.defined() ? parameters.numel() : 0;
  if (given < wanted) {
    refuse(fmt::format("expected {} parameters, got {}", wanted, given));
  }
  const auto theta = [&] { return parameters.to(dx.device(), dx.dtype()); };
  switch (green.kind) {
    case GreenKind::kNone:
      return torch::zeros(dx.sizes().slice(0, dx.dim() - 1), dx.options());
    case GreenKind::kHeat:
      return log_heat(green, theta()[0], dx, dt);
    case GreenKind::kAdvectionDiffusion:
      return log_heat(
          green, theta()[0],
          dx - theta().slice(0, 1, 1 + green.dimensions) * dt.unsqueeze(-1),
          dt);
    case GreenKind::kWave:
      return log_wave(green, theta()[0], dx, dt);
    case GreenKind::kPoisson:
      return log_poisson(green, dx);
  }
  return {};
}

Tensor green_logits(const GreenTerm& term, const Tensor& queries,
                    const Tensor& keys, const Tensor& hidden) {
  const auto& green = term.function;
  const int64_t axes = green.coordinates();
  if (queries.dim() != 3 || keys.dim() != 3 || queries.size(2) < axes ||
      keys.size(2) < axes) {
    refuse(fmt::format(
        "expected coordinates (B, T, {} or more), got ({}) and "
        "({})",
        axes, fmt::join(queries.sizes(), ", "), fmt::join(keys.sizes(), ", ")));
  }
  const auto from = places(queries, term.global_query, {}).unsqueeze(2);
  const auto to = places(keys, term.global_key, hidden).unsqueeze(1);
  const int64_t d = axes > 0 ? green.dimensions : 0;
  const auto dx = from.slice(3, 0, d) - to.slice(3, 0, d);
  Tensor dt;
  if (green.in_time()) dt = from.select(3, d) - to.select(3, d);
  auto logits = log_green(green, term.parameters, dx, dt);  // (B, Tq, Tk)
  if (term.global_query || term.global_key) {
    auto global = torch::zeros_like(logits, torch::kBool);
    if (term.global_query) global.select(1, 0).fill_(true);
    if (term.global_key) global.select(2, 0).fill_(true);
    logits = logits.masked_fill(global, 0);
  }
  if (hidden.defined()) {
    logits = logits.masked_fill(hidden.unsqueeze(1), kNever);
  }
  return logits.unsqueeze(1);
}

}  // namespace propagator::kernels
