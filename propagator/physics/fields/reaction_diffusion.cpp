#include "propagator/physics/fields/reaction_diffusion.h"

#include <cmath>

#include "propagator/physics/fields/etdrk4.h"

namespace propagator::physics {
namespace {

using torch::Tensor;

// Runge and Kutta's classical method is stable up to -2.78 along the real axis.
constexpr double kStable = 2;

// (N, 2, X, Y) as (N, X, Y, 2)
Tensor channels_last(const Tensor& state) {
  return state.permute({0, 2, 3, 1});
}

}  // namespace

void ReactionDiffusion::describe_grid(config::Schema& s) {
  s.field(
      "points", points_,
      {.help = "cells along each axis", .min = 4, .max = 2048, .memory = true});
  times_.describe(s);
  s.field("steps", steps_,
          {.help = "time steps from frame to frame", .min = 1, .max = 1e6});
  s.field("laplacian", laplacian_,
          {.help = "spectral: of the functions that cells sample; differences: "
                   "second differences of cells, as finite volumes have it, "
                   "where noise in each cell has no other meaning"});
}

void ReactionDiffusion::describe_steps(config::Schema& s) {
  s.field("diffusion_u", diffusion_u_,
          {.help = "diffusivity of u", .unit = "1/time", .min = 0, .max = 10});
  s.field("diffusion_v", diffusion_v_,
          {.help = "diffusivity of v", .unit = "1/time", .min = 0, .max = 10});
}

void ReactionDiffusion::march(
    const Tensor& begin, const Tensor& parameters, int64_t steps, int64_t count,
    const std::function<void(int64_t n, const Tensor& frame)>& take) const {
  const auto own = basis(begin.size(2), begin.options());
  const auto laplacian = own.laplacian();
  const auto linear =
      torch::stack({diffusion_u_ * laplacian, diffusion_v_ * laplacian});
  const Etdrk4 scheme(linear, times_.step() / static_cast<double>(steps),
                      begin.scalar_type());
  const auto rates = parameters.to(begin.options());
  const auto nonlinear = [&](const Tensor& v) {
    return own.forward(reaction(own.inverse(v), rates));
  };
  auto state = own.forward(begin);
  for (int64_t n = 1; n <= count; ++n) {
    for (int64_t m = 0; m < steps; ++m) state = scheme.step(state, nonlinear);
    take(n, channels_last(own.inverse(state)));
  }
}

Tensor ReactionDiffusion::frames(const CaseRange& range, int64_t steps) const {
  const auto begin = initial(range).to(range.where);  // (N, 2, X, Y)
  auto values = torch::empty({range.count, times_.frames, points_, points_, 2},
                             range.where);
  values.select(1, 0).copy_(channels_last(begin));
  range.frame_done();
  march(begin, parameters(range), steps, times_.frames - 1,
        [&](int64_t n, const Tensor& frame) {
          expect_finite(frame, static_cast<double>(n) * times_.step(),
                        "more of field.steps make the time step smaller");
          values.select(1, n).copy_(frame);
          range.frame_done();
        });
  return values;
}

Tensor ReactionDiffusion::continued(const Tensor& states,
                                    const Tensor& parameters,
                                    int64_t count) const {
  std::vector<Tensor> all;
  march(states.permute({0, 3, 1, 2}), parameters, steps_, count,
        [&](int64_t, const Tensor& frame) { all.push_back(frame); });
  return torch::stack(all, 1);
}

// The same cells, by the classical explicit method of fourth order.
Tensor ReactionDiffusion::explicit_frames(const CaseRange& range) const {
  const auto own = basis(points_, range.where);
  const auto laplacian = own.laplacian();
  const auto linear =
      torch::stack({diffusion_u_ * laplacian, diffusion_v_ * laplacian})
          .to(range.where);
  const auto rates = parameters(range).to(range.where);
  const auto slope = [&](const Tensor& u) {
    return own.inverse(linear * own.forward(u)) + reaction(u, rates);
  };
  const double fastest = linear.abs().max().item<double>();
  const auto steps = std::max<int64_t>(
      2 * steps_, std::lround(std::ceil(times_.step() * fastest / kStable)));
  const double dt = times_.step() / static_cast<double>(steps);
  auto u = initial(range).to(range.where);
  std::vector<Tensor> all{channels_last(u)};
  for (int64_t n = 1; n < times_.frames; ++n) {
    for (int64_t m = 0; m < steps; ++m) {
      const auto a = slope(u), b = slope(u + dt / 2 * a);
      const auto c = slope(u + dt / 2 * b), d = slope(u + dt * c);
      u = u + dt / 6 * (a + 2 * b + 2 * c + d);
    }
    all.push_back(channels_last(u));
  }
  return torch::stack(all, 1);
}

FieldCases ReactionDiffusion::solve(const CaseRange& range) const {
  return {frames(range, steps_), parameters(range)};
}

std::map<std::string, double> ReactionDiffusion::assess(
    const CaseRange& range, const FieldCases& found, FieldCheck check) const {
  const auto one = range.one();
  const auto values = found.values.narrow(0, 0, 1);
  const auto finer = frames(one, 2 * steps_);
  const auto last = values.select(1, -1).to(torch::kFloat64);
  std::map<std::string, double> numbers{
      {"step_error", relative_l2(values, finer)},
      {"last_mean_square", last.square().mean().item<double>()}};
  if (check != FieldCheck::kFull) return numbers;
  numbers["explicit_error"] = relative_l2(values, explicit_frames(one));
  return numbers;
}

}  // namespace propagator::physics
