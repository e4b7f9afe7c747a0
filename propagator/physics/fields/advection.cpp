#include "propagator/physics/fields/advection.h"

#include <torch/fft.h>

#include <cmath>
#include <numbers>

#include "propagator/physics/fields/case_draws.h"

namespace propagator::physics {
namespace {

using torch::Tensor;

// (n, n): what a shift does to values on n periodic points.
torch::Tensor shift_matrix(int64_t n, double length,
                           const torch::TensorOptions& where) {
  const auto k = torch::arange(n / 2 + 1, torch::kFloat64);
  const auto angle = -2 * std::numbers::pi * (length - std::floor(length)) * k;
  const auto turn = torch::polar(torch::ones_like(angle), angle);
  const auto rows =
      torch::fft::irfft(torch::fft::rfft(torch::eye(n, torch::kFloat64)) * turn,
                        n);  // row i: the unit vector i, moved
  return rows.t().to(where);
}

}  // namespace

torch::Tensor shifted(const torch::Tensor& states,
                      const std::vector<double>& lengths) {
  auto moved = states;
  for (size_t d = 0; d < lengths.size(); ++d) {
    const auto axis = static_cast<int64_t>(d) + 1;
    const auto matrix =
        shift_matrix(states.size(axis), lengths[d], states.options());
    moved = torch::matmul(moved.transpose(axis, -1), matrix.t())
                .transpose(axis, -1);
  }
  return moved;
}

void Advection::describe(config::Schema& s) {
  s.field(
      "points", points_,
      {.help = "points of the interval", .min = 8, .max = 1e6, .memory = true});
  times_.describe(s);
  s.field("speed_min", speed_min_,
          {.help = "lowest speed of a case; with field.speed_max equal to it "
                   "the speed of all",
           .unit = "interval/time",
           .min = -1e3,
           .max = 1e3});
  s.field("speed_max", speed_max_,
          {.help = "highest speed of a case",
           .unit = "interval/time",
           .min = -1e3,
           .max = 1e3});
  waves_.describe(s);
}

void Advection::validate() const {
  expect_rising("field.speed_max", speed_min_, speed_max_);
  waves_.validate(points_);
}

FieldLayout Advection::layout() const {
  return {.times = times_.at(),
          .axes = {{"x", periodic_points(0, 1, points_), Boundary::kPeriodic}},
          .channels = {"u"},
          .parameters = {"speed"}};
}

torch::Tensor Advection::speeds(const CaseRange& range) const {
  return CaseDraws(range, "fields/advection/speed")
      .uniform(1, speed_min_, speed_max_)
      .select(1, 0);
}

Tensor Advection::continued(const Tensor& states, const Tensor& parameters,
                            int64_t count) const {
  const int64_t points = states.size(1);
  const auto spectrum = torch::fft::rfft(states.select(2, 0));
  const auto k =
      2 * std::numbers::pi * torch::arange(points / 2 + 1, torch::kFloat64);
  const auto speed = parameters.select(1, 0).to(torch::kCPU, torch::kFloat64);
  std::vector<Tensor> all;
  for (int64_t n = 1; n <= count; ++n) {
    const auto distance =
        torch::frac(speed * (static_cast<double>(n) * times_.step()));
    const auto angle = torch::outer(distance, -k);
    const auto turn = torch::polar(torch::ones_like(angle), angle)
                          .to(spectrum.device())
                          .to(spectrum.scalar_type());
    all.push_back(torch::fft::irfft(spectrum * turn, points));
  }
  return torch::stack(all, 1).unsqueeze(-1);
}

FieldCases Advection::solve(const CaseRange& range) const {
  const auto speed = speeds(range);
  const auto initial = SineWaves::draw(waves_, range, points_)
                           .at(periodic_points(0, 1, points_))
                           .to(range.where);
  const auto spectrum = torch::fft::rfft(initial);  // (N, X/2 + 1)
  const auto k =
      2 * std::numbers::pi *
      torch::arange(points_ / 2 + 1, torch::kFloat64).to(range.where.device());
  const auto times = times_.at();
  auto values =
      torch::empty({range.count, times_.frames, points_, 1}, range.where);
  for (int64_t n = 0; n < times_.frames; ++n) {
    if (n == 0) {
      values.select(1, 0).select(2, 0).copy_(initial);
    } else {
      const auto distance = torch::frac(speed * times[n]).to(k.device());
      const auto angle = torch::outer(distance, -k);
      const auto turn = torch::polar(torch::ones_like(angle), angle)
                            .to(spectrum.scalar_type());
      values.select(1, n).select(2, 0).copy_(
          torch::fft::irfft(spectrum * turn, points_));
    }
    range.frame_done();
  }
  return {values, speed.unsqueeze(1)};
}

std::map<std::string, double> Advection::assess(const CaseRange& range,
                                                const FieldCases& found,
                                                FieldCheck) const {
  const auto one = range.one();
  const auto waves = SineWaves::draw(waves_, one, points_);
  const auto speed = speeds(one);
  const auto x = periodic_points(0, 1, points_), times = times_.at();
  std::vector<torch::Tensor> frames;
  for (int64_t n = 0; n < times_.frames; ++n) {
    frames.push_back(waves.moved(speed * times[n]).at(x));
  }
  const auto values = found.values.narrow(0, 0, 1).select(3, 0).cpu();
  return {{"shift_error", relative_l2(values, torch::stack(frames, 1))},
          {"mean_drift", largest_drift(values)}};
}

}  // namespace propagator::physics
