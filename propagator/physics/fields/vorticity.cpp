#include "propagator/physics/fields/vorticity.h"

#include <torch/fft.h>

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/physics/fields/case_draws.h"
#include "propagator/physics/fields/etdrk4.h"

namespace propagator::physics {
namespace {

using torch::Tensor;

constexpr double kTurn = 2 * std::numbers::pi;

// Wave numbers, in waves on the side, of the coefficients that rfft2 has.
struct TorusModes {
  Tensor x, y;  // (n, 1) and (1, n/2 + 1), float64 on the CPU
  int64_t n;

  explicit TorusModes(int64_t n)
      : x((torch::fft::fftfreq(n, torch::kFloat64) * static_cast<double>(n))
              .unsqueeze(1)),
        y(torch::arange(n / 2 + 1, torch::kFloat64).unsqueeze(0)),
        n(n) {}
  Tensor squares() const { return kTurn * kTurn * (x.square() + y.square()); }
  // Those below two thirds of the highest, of which products have no aliases.
  Tensor kept() const {
    const double third = static_cast<double>(n) / 3;
    return ((x.abs() < third) & (y < third)).to(torch::kFloat64);
  }
};

// i a, of real a.
Tensor times_i(const Tensor& a) {
  return torch::complex(torch::zeros_like(a), a);
}

Tensor back_to_points(const Tensor& coefficients, int64_t n) {
  const std::vector<int64_t> sizes{n, n};
  return torch::fft::irfft2(coefficients, sizes);
}

// -∇·(u w) + f of coefficients (N, n, n/2 + 1).
class TorusAdvection {
 public:
  TorusAdvection(int64_t n, double forcing, const torch::TensorOptions& where,
                 torch::ScalarType complex)
      : n_(n) {
    const TorusModes modes(n);
    const auto square = modes.squares();
    const auto inverse =
        torch::where(square > 0, 1 / square, torch::zeros_like(square));
    const auto to = [&](const Tensor& a) {
      return times_i(a).to(where.device()).to(complex);
    };
    // u = ψ_y, v = -ψ_x.
    velocity_ = torch::stack(
        {to(kTurn * modes.y * inverse), to(-kTurn * modes.x * inverse)});
    divergence_ = torch::stack({to(-kTurn * modes.x * modes.kept()),
                                to(-kTurn * modes.y * modes.kept())});
    const auto x = periodic_points(0, 1, n);
    const auto angle = kTurn * (x.unsqueeze(1) + x);
    force_ =
        torch::fft::rfft2(forcing * (torch::sin(angle) + torch::cos(angle)))
            .to(where.device())
            .to(complex);
  }

  Tensor operator()(const Tensor& w) const {
    const auto three =
        torch::cat({velocity_ * w.unsqueeze(1), w.unsqueeze(1)}, 1);
    const auto at = back_to_points(three, n_);  // (N, 3, n, n)
    const auto flux =
        torch::fft::rfft2(at.narrow(1, 0, 2) * at.narrow(1, 2, 1));
    return (divergence_ * flux).sum(1) + force_;
  }

 private:
  int64_t n_;
  Tensor velocity_, divergence_;  // (2, n, n/2 + 1)
  Tensor force_;
};

}  // namespace

void Vorticity::describe(config::Schema& s) {
  s.field("points", points_,
          {.help = "points along each axis that are kept",
           .min = 8,
           .max = 2048,
           .memory = true});
  s.field("refine", refine_,
          {.help = "points that are computed for each that is kept, along each "
                   "axis",
           .min = 1,
           .max = 16});
  times_.describe(s);
  s.field("steps", steps_,
          {.help = "time steps from frame to frame", .min = 1, .max = 1e6});
  const auto nu = [&](const char* name, double& value, const char* help) {
    s.field(name, value,
            {.help = help, .unit = "side²/time", .min = 1e-7, .max = 10});
  };
  nu("viscosity_min", viscosity_min_,
     "lowest viscosity of a case; with field.viscosity_max equal to it that of "
     "all, else logarithms are drawn");
  nu("viscosity_max", viscosity_max_, "highest viscosity of a case");
  s.field("forcing", forcing_,
          {.help = "A of the force A (sin + cos)(2 pi (x + y))",
           .min = 0,
           .max = 1e3});
  s.field("initial", start_,
          {.help = "random: a Gaussian field; taylor-green: vortices that "
                   "decay without changing their form"});
  s.field("variance", variance_,
          {.help = "factor of the Gaussian field's covariance, "
                   "variance (-Laplace + tau²)^-2.5",
           .min = 0,
           .max = 1e6});
  s.field("tau", tau_,
          {.help = "tau of that covariance; 1/tau is the size of its eddies",
           .min = 0.1,
           .max = 1e3});
  s.field("modes", modes_,
          {.help = "highest wave number of the Gaussian field along each axis, "
                   "the same on any grid",
           .min = 1,
           .max = 512});
  s.field(
      "vortices", vortices_,
      {.help = "waves of taylor-green along each axis", .min = 1, .max = 64});
}

void Vorticity::validate() const {
  expect_rising("field.viscosity_max", viscosity_min_, viscosity_max_);
  const int64_t highest = (points_ * refine_ - 1) / 3;
  const auto expect_below = [&](const char* key, int64_t value) {
    if (value <= highest) return;
    throw ConfigError(key,
                      fmt::format("expected at most {}, a third of the points "
                                  "that are computed, got {}",
                                  highest, value),
                      "more of field.points or field.refine resolve more");
  };
  if (start_ == VorticityStart::kRandom) {
    expect_below("field.modes", modes_);
  } else {
    expect_below("field.vortices", vortices_);
  }
}

FieldLayout Vorticity::layout() const {
  const auto points = periodic_points(0, 1, points_);
  return {.times = times_.at(),
          .axes = {{"x", points, Boundary::kPeriodic},
                   {"y", points, Boundary::kPeriodic}},
          .channels = {"vorticity"},
          .parameters = {"viscosity"}};
}

Tensor Vorticity::viscosities(const CaseRange& range) const {
  return CaseDraws(range, "fields/vorticity/viscosity")
      .log_uniform(1, viscosity_min_, viscosity_max_)
      .select(1, 0);
}

// w = Σ √(2 λ_k) (ξ cos 2πk·x + η sin 2πk·x) over half of all k ≠ 0, whose
// coefficients are √(λ_k/2) (ξ - iη) n².
Tensor Vorticity::initial(const CaseRange& range, int64_t grid) const {
  if (start_ == VorticityStart::kTaylorGreen) {
    const auto x = periodic_points(0, 1, grid);
    const auto wave = torch::cos(kTurn * static_cast<double>(vortices_) * x);
    return torch::fft::rfft2(torch::outer(wave, wave))
        .expand({range.count, grid, grid / 2 + 1});
  }
  const int64_t high = modes_, wide = 2 * high + 1;
  const auto x = torch::arange(-high, high + 1, torch::kFloat64).unsqueeze(1);
  const auto y = torch::arange(high + 1, torch::kFloat64);
  // Of y = 0 the half x > 0 is drawn, and the other is its conjugate.
  const auto drawn = ((y > 0) | (x > 0)).to(torch::kFloat64);
  const auto deviation =
      drawn * torch::sqrt(variance_ / 2 *
                          torch::pow(kTurn * kTurn * (x.square() + y.square()) +
                                         tau_ * tau_,
                                     -2.5));
  const auto normal = CaseDraws(range, "fields/vorticity/initial")
                          .normal(2 * wide * (high + 1))
                          .view({range.count, 2, wide, high + 1});
  const auto scaled = normal * deviation * static_cast<double>(grid) *
                      static_cast<double>(grid);
  auto small = torch::complex(scaled.select(1, 0), -scaled.select(1, 1));
  const auto axis = small.select(2, 0);
  small.select(2, 0)
      .narrow(1, 0, high)
      .copy_(torch::conj(axis.narrow(1, high + 1, high).flip(1)).clone());
  auto all = torch::zeros({range.count, grid, grid / 2 + 1}, small.options());
  all.narrow(1, 0, high + 1)
      .narrow(2, 0, high + 1)
      .copy_(small.narrow(1, high, high + 1));
  all.narrow(1, grid - high, high)
      .narrow(2, 0, high + 1)
      .copy_(small.narrow(1, 0, high));
  return all;
}

void Vorticity::march(
    Tensor state, const Tensor& viscosities, int64_t steps, int64_t count,
    const std::function<void(const Tensor& frame)>& take) const {
  const int64_t grid = state.size(1);
  const auto type = c10::toRealValueType(state.scalar_type());
  const auto where = state.options().dtype(type);
  const auto linear =
      (-viscosities.view({-1, 1, 1}) * TorusModes(grid).squares())
          .to(state.device());
  const Etdrk4 scheme(linear, times_.step() / static_cast<double>(steps), type);
  const TorusAdvection advection(grid, forcing_, where, state.scalar_type());
  for (int64_t n = 0; n < count; ++n) {
    for (int64_t m = 0; m < steps; ++m) state = scheme.step(state, advection);
    take(back_to_points(state, grid));
  }
}

Tensor Vorticity::frames(const CaseRange& range, int64_t grid,
                         int64_t steps) const {
  const auto complex = range.where.dtype() == torch::kFloat64
                           ? torch::kComplexDouble
                           : torch::kComplexFloat;
  const auto begin = initial(range, grid).to(range.where.device()).to(complex);
  auto values = torch::empty({range.count, times_.frames, points_, points_, 1},
                             range.where);
  int64_t n = 0;
  const auto keep = [&](const Tensor& frame) {
    const int64_t each = grid / points_;
    const auto at = frame.view({range.count, points_, each, points_, each})
                        .select(4, 0)
                        .select(2, 0);
    expect_finite(at, static_cast<double>(n) * times_.step(),
                  "more of field.steps make the time step smaller");
    values.select(1, n).select(3, 0).copy_(at);
    ++n;
    range.frame_done();
  };
  keep(back_to_points(begin, grid));
  march(begin, viscosities(range), steps, times_.frames - 1, keep);
  return values;
}

Tensor Vorticity::continued(const Tensor& states, const Tensor& parameters,
                            int64_t count) const {
  std::vector<Tensor> all;
  march(torch::fft::rfft2(states.select(3, 0)),
        parameters.select(1, 0).to(torch::kCPU, torch::kFloat64), steps_, count,
        [&](const Tensor& frame) { all.push_back(frame); });
  return torch::stack(all, 1).unsqueeze(-1);
}

FieldCases Vorticity::solve(const CaseRange& range) const {
  return {frames(range, points_ * refine_, steps_),
          viscosities(range).unsqueeze(1)};
}

std::map<std::string, double> Vorticity::assess(const CaseRange& range,
                                                const FieldCases& found,
                                                FieldCheck check) const {
  const auto one = range.one();
  const int64_t grid = points_ * refine_;
  const auto values = found.values.narrow(0, 0, 1);
  const auto w = values.select(4, 0).to(torch::kFloat64);
  std::map<std::string, double> numbers{
      {"mean_drift", largest_drift(w)},
      {"step_error", relative_l2(values, frames(one, grid, 2 * steps_))},
      {"last_mean_square", w.select(1, -1).square().mean().item<double>()}};
  if (start_ == VorticityStart::kTaylorGreen && forcing_ == 0) {
    const double rate = 2 * kTurn * kTurn *
                        static_cast<double>(vortices_ * vortices_) *
                        viscosities(one)[0].item<double>();
    const auto decay =
        torch::exp(-rate * times_.at()).view({1, -1, 1, 1}).to(w.device());
    numbers["taylor_green_error"] = relative_l2(w, w.narrow(1, 0, 1) * decay);
  }
  if (check == FieldCheck::kFull) {
    numbers["grid_error"] =
        relative_l2(values, frames(one, 2 * grid, 2 * steps_));
  }
  return numbers;
}

}  // namespace propagator::physics
