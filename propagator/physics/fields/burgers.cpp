#include "propagator/physics/fields/burgers.h"

#include <torch/fft.h>

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/physics/fields/etdrk4.h"

namespace propagator::physics {
namespace {

using torch::Tensor;

constexpr double kPi = std::numbers::pi;
constexpr double kMildRange = 8;  // e^16 of a range costs seven digits
// The integrand ends where it is e^-40 of its largest, and the trapezoidal rule
// with 1.6 points a standard deviation leaves e^{-2 π² 1.6²} of it.
constexpr double kReach = 9;
constexpr double kPerWidth = 1.6;
constexpr double kLeastValue = 1e-6;
constexpr int64_t kWindow = 4'000'000;  // numbers of the integrand at once

}  // namespace

void Burgers::describe(config::Schema& s) {
  s.field("points", points_,
          {.help = "points of the interval",
           .min = 8,
           .max = 65536,
           .memory = true});
  times_.describe(s);
  s.field("viscosity", viscosity_,
          {.help = "nu of u_t + u u_x = (nu / pi) u_xx",
           .unit = "interval²/time",
           .min = 1e-4,
           .max = 100});
  waves_.describe(s);
  s.field("method", method_,
          {.help = "exact: the formula of Cole and Hopf; spectral: "
                   "exponential Runge-Kutta steps of Fourier coefficients"});
  s.field("refine", refine_,
          {.help = "the spectral method's points for each of the grid; shocks "
                   "are nu wide",
           .min = 1,
           .max = 1024});
  s.field("courant", courant_,
          {.help = "the spectral method's step, as a share of the time in "
                   "which the fastest value passes a point",
           .min = 1e-3,
           .max = 2});
}

double Burgers::diffusion() const { return viscosity_ / kPi; }

double Burgers::largest_value() const {
  if (waves_.unit_max) return 2;
  return static_cast<double>(waves_.waves()) *
         std::max(std::abs(waves_.amplitude_min),
                  std::abs(waves_.amplitude_max));
}

double Burgers::largest_slope() const {
  return 2 * kPi * static_cast<double>(waves_.modes) * largest_value();
}

bool Burgers::is_mild() const {
  return largest_value() / (2 * kPi) / (2 * diffusion()) <= kMildRange;
}

void Burgers::validate() const {
  waves_.validate(points_);
  if (method_ == BurgersMethod::kSpectral && points_ * refine_ > (1 << 20)) {
    throw ConfigError(
        "field.refine",
        fmt::format("expected at most 2^20 points, got {}", points_ * refine_));
  }
}

FieldLayout Burgers::layout() const {
  return {.times = times_.at(),
          .axes = {{"x", periodic_points(0, 1, points_), Boundary::kPeriodic}},
          .channels = {"u"},
          .parameters = {"viscosity"}};
}

int64_t Burgers::quadrature(double time, int64_t finer) const {
  const double width =
      std::sqrt(2 * diffusion() / (1 / time + largest_slope()));
  const double per_unit = kPerWidth * static_cast<double>(finer) / width;
  return std::max<int64_t>(
      finer, std::lround(std::ceil(per_unit / static_cast<double>(points_))));
}

Tensor Burgers::by_integral(const SineWaves& waves, double time, int64_t finer,
                            const torch::TensorOptions& where) const {
  const double eps = diffusion();
  const int64_t each = quadrature(time, finer), all = points_ * each;
  const double spacing = 1 / static_cast<double>(all);
  // Values come no farther than their speed allows, nor from where the Gaussian
  // is smaller than F, whose range is half of max |u|, can make up for.
  const double reach =
      std::min(largest_value() * time, std::sqrt(time * largest_value())) +
      kReach * std::sqrt(2 * eps * time);
  const auto side = std::lround(std::ceil(reach / spacing));
  const int64_t window = 2 * side + 1;
  const auto y = spacing * torch::arange(-side, all + side, torch::kFloat64);
  const auto potential =
      (waves.integral(y) / (-2 * eps)).to(where.device());  // (N, Y)
  const auto away = (spacing * torch::arange(-side, side + 1, torch::kFloat64))
                        .to(where.device());
  const auto gaussian = away.square() / (4 * eps * time);
  // Row x of the window has the integrand's y = x - side … x + side.
  const auto views = potential.as_strided({potential.size(0), points_, window},
                                          {potential.stride(0), each, 1});
  auto values =
      torch::empty({potential.size(0), points_},
                   torch::TensorOptions(where).dtype(torch::kFloat64));
  const int64_t at_once =
      std::max<int64_t>(1, kWindow / (window * potential.size(0)));
  for (int64_t n = 0; n < points_; n += at_once) {
    const int64_t count = std::min(at_once, points_ - n);
    auto weight = views.narrow(1, n, count) - gaussian;
    weight -= weight.amax(2, /*keepdim=*/true);
    weight.exp_();
    // x - y is -away.
    values.narrow(1, n, count)
        .copy_(torch::matmul(weight, -away) / (time * weight.sum(2)));
  }
  return values;
}

Tensor Burgers::by_heat(const SineWaves& waves, double time, int64_t finer,
                        const torch::TensorOptions& where) const {
  const double eps = diffusion();
  const int64_t each = 4 * finer, all = points_ * each;
  const auto x = periodic_points(0, 1, all);
  const auto spectrum = torch::fft::rfft(
      torch::exp(waves.integral(x) / (-2 * eps)).to(where.device()));
  const auto k = 2 * kPi * torch::arange(all / 2 + 1, torch::kFloat64);
  const auto now =
      spectrum * torch::exp(-eps * time * k.square()).to(where.device());
  const auto turn = torch::complex(torch::zeros_like(k), k).to(where.device());
  const auto slope = torch::fft::irfft(now * turn, all);
  const auto values = -2 * eps * slope / torch::fft::irfft(now, all);
  return values.view({-1, points_, each}).select(2, 0);
}

Tensor Burgers::exact_frame(const SineWaves& waves, double time, int64_t finer,
                            const torch::TensorOptions& where) const {
  if (time == 0) return waves.at(periodic_points(0, 1, points_));
  return is_mild() ? by_heat(waves, time, finer, where)
                   : by_integral(waves, time, finer, where);
}

void Burgers::march(
    const Tensor& begin, double largest, int64_t count,
    const std::function<void(const Tensor& frame)>& take) const {
  const int64_t all = begin.size(1);
  const auto index = torch::arange(all / 2 + 1, torch::kFloat64);
  const auto k = (2 * kPi * index).to(begin.device());
  const auto kept = index < static_cast<double>(all) / 3;
  const auto turn = (torch::complex(torch::zeros_like(index),
                                    -kPi * index * kept)
                         .to(begin.device()));  // of -(u²/2)_x
  const double longest = courant_ / (largest * static_cast<double>(all));
  const int64_t steps = std::lround(std::ceil(times_.step() / longest));
  const Etdrk4 scheme(-diffusion() * k.square(),
                      times_.step() / static_cast<double>(steps),
                      begin.scalar_type());
  auto state = torch::fft::rfft(begin);
  const auto factor = turn.to(state.scalar_type());
  const auto nonlinear = [&](const Tensor& v) {
    return factor * torch::fft::rfft(torch::fft::irfft(v, all).square());
  };
  for (int64_t n = 0; n < count; ++n) {
    for (int64_t m = 0; m < steps; ++m) state = scheme.step(state, nonlinear);
    take(torch::fft::irfft(state, all));
  }
}

Tensor Burgers::spectral_frames(const CaseRange& range, int64_t finer) const {
  const int64_t all = points_ * refine_ * finer;
  const auto waves = SineWaves::draw(waves_, range, points_);
  const auto begin = waves.at(periodic_points(0, 1, all)).to(range.where);
  std::vector<Tensor> frames;
  const auto keep = [&](const Tensor& frame) {
    frames.push_back(frame.view({range.count, points_, -1}).select(2, 0));
    expect_finite(frames.back(),
                  static_cast<double>(frames.size() - 1) * times_.step(),
                  "a larger field.refine or a smaller field.courant");
    range.frame_done();
  };
  keep(begin);
  march(begin, largest_value(), times_.frames - 1, keep);
  return torch::stack(frames, 1);
}

Tensor Burgers::continued(const Tensor& states, const Tensor&,
                          int64_t count) const {
  const auto begin = states.select(2, 0);
  // No value grows beyond the largest; one that stands still takes one step.
  const double largest =
      std::max(begin.abs().max().item<double>(), kLeastValue);
  std::vector<Tensor> frames;
  march(begin, largest, count,
        [&](const Tensor& frame) { frames.push_back(frame); });
  return torch::stack(frames, 1).unsqueeze(-1);
}

FieldCases Burgers::solve(const CaseRange& range) const {
  const auto viscosity =
      torch::full({range.count, 1}, viscosity_, torch::kFloat64);
  if (method_ == BurgersMethod::kSpectral) {
    return {spectral_frames(range, 1).unsqueeze(3), viscosity};
  }
  const auto waves = SineWaves::draw(waves_, range, points_);
  auto values =
      torch::empty({range.count, times_.frames, points_, 1}, range.where);
  for (int64_t n = 0; n < times_.frames; ++n) {
    values.select(1, n).select(2, 0).copy_(exact_frame(
        waves, static_cast<double>(n) * times_.step(), 1, range.where));
    range.frame_done();
  }
  return {values, viscosity};
}

std::map<std::string, double> Burgers::assess(const CaseRange& range,
                                              const FieldCases& found,
                                              FieldCheck check) const {
  const auto one = range.one();
  const auto waves = SineWaves::draw(waves_, one, points_);
  std::vector<Tensor> frames;
  for (int64_t n = 0; n < times_.frames; ++n) {
    frames.push_back(
        exact_frame(waves, static_cast<double>(n) * times_.step(), 2, one.where)
            .cpu());
  }
  const auto finer = torch::stack(frames, 1);
  const auto values = found.values.narrow(0, 0, 1).select(3, 0).cpu();
  std::map<std::string, double> numbers{
      {"exact_error", relative_l2(values, finer)},
      {"mean_drift", largest_drift(values)}};
  if (check != FieldCheck::kFull) return numbers;
  const auto stepped = spectral_frames(one, 1).cpu();
  numbers["spectral_error"] = relative_l2(stepped, finer);
  return numbers;
}

}  // namespace propagator::physics
