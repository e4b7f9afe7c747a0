// The two equations of reaction_diffusion.h.

#include <cmath>
#include <numbers>

#include "propagator/physics/fields/case_draws.h"
#include "propagator/physics/fields/reaction_diffusion.h"

namespace propagator::physics {
namespace {

using torch::Tensor;

constexpr double kSide = 2;  // of [-1, 1]
constexpr int64_t kSmoothModes = 4;

// (N, P) as a number for each case, (N, 1, 1).
Tensor of_each_case(const Tensor& parameters, int64_t which) {
  return parameters.select(1, which).view({-1, 1, 1});
}

}  // namespace

DiffusionReaction::DiffusionReaction() {
  diffusion_u_ = 1e-3;
  diffusion_v_ = 5e-3;
  steps_ = 4;
}

void DiffusionReaction::describe(config::Schema& s) {
  describe_grid(s);
  describe_steps(s);
  s.field("k", k_,
          {.help = "k of the reaction u - u³ - k - v", .min = -10, .max = 10});
  s.field("initial", start_,
          {.help = "noise: independent normal numbers in each cell; smooth: "
                   "the same four by four cosines on any grid"});
}

FieldLayout DiffusionReaction::layout() const {
  const auto points = cell_centres(-1, 1, points_);
  return {
      .times = times_.at(),
      .axes = {{"x", points, Boundary::kWall}, {"y", points, Boundary::kWall}},
      .channels = {"u", "v"},
      .parameters = {"k"}};
}

Tensor DiffusionReaction::reaction(const Tensor& state,
                                   const Tensor& parameters) const {
  const auto u = state.select(1, 0), v = state.select(1, 1);
  return torch::stack({u - u * u * u - of_each_case(parameters, 0) - v, u - v},
                      1);
}

Tensor DiffusionReaction::initial(const CaseRange& range) const {
  const CaseDraws draws(range, "fields/diffusion-reaction/initial");
  if (start_ == ReactionStart::kNoise) {
    return draws.normal(2 * points_ * points_)
        .view({range.count, 2, points_, points_});
  }
  const auto modes = draws.normal(2 * kSmoothModes * kSmoothModes)
                         .view({range.count, 2, kSmoothModes, kSmoothModes}) /
                     static_cast<double>(kSmoothModes);
  const auto angle = torch::outer(
      (cell_centres(-1, 1, points_) + 1) * (std::numbers::pi / kSide),
      torch::arange(kSmoothModes, torch::kFloat64));
  const auto cosines = torch::cos(angle);  // (X, K)
  return torch::matmul(cosines, torch::matmul(modes, cosines.t()));
}

Tensor DiffusionReaction::parameters(const CaseRange& range) const {
  return torch::full({range.count, 1}, k_, torch::kFloat64);
}

AxisBasis DiffusionReaction::basis(int64_t points,
                                   const torch::TensorOptions& where) const {
  return AxisBasis::without_flux(points, kSide, laplacian_, where);
}

GrayScott::GrayScott() {
  diffusion_u_ = 2e-5;
  diffusion_v_ = 1e-5;
  times_ = {101, 2000};
  steps_ = 10;
}

void GrayScott::describe(config::Schema& s) {
  describe_grid(s);
  describe_steps(s);
  const auto rate = [&](const char* name, double& value, const char* help) {
    s.field(name, value, {.help = help, .unit = "1/time", .min = 0, .max = 1});
  };
  rate("feed_min", feed_min_,
       "lowest feed rate F of a case; with field.feed_max equal to it that of "
       "all");
  rate("feed_max", feed_max_, "highest feed rate F of a case");
  rate("kill_min", kill_min_,
       "lowest kill rate k of a case; with field.kill_max equal to it that of "
       "all");
  rate("kill_max", kill_max_, "highest kill rate k of a case");
  s.field("spots", spots_,
          {.help = "Gaussian spots of v in the initial values",
           .min = 0,
           .max = 1000});
  s.field("spot_width", spot_width_,
          {.help = "standard deviation of a spot; the side of the square is 2",
           .min = 1e-3,
           .max = 0.5});
}

void GrayScott::validate() const {
  expect_rising("field.feed_max", feed_min_, feed_max_);
  expect_rising("field.kill_max", kill_min_, kill_max_);
}

FieldLayout GrayScott::layout() const {
  const auto points = periodic_points(-1, 1, points_);
  return {.times = times_.at(),
          .axes = {{"x", points, Boundary::kPeriodic},
                   {"y", points, Boundary::kPeriodic}},
          .channels = {"u", "v"},
          .parameters = {"feed", "kill"}};
}

Tensor GrayScott::reaction(const Tensor& state,
                           const Tensor& parameters) const {
  const auto u = state.select(1, 0), v = state.select(1, 1);
  const auto feed = of_each_case(parameters, 0);
  const auto kill = of_each_case(parameters, 1);
  const auto uvv = u * v * v;
  return torch::stack({feed * (1 - u) - uvv, uvv - (feed + kill) * v}, 1);
}

// Each spot takes u to 1 - ½ and v to ¼ at its centre; where several lie on one
// another v is at most ¼ all the same.
Tensor GrayScott::initial(const CaseRange& range) const {
  const auto centre =
      CaseDraws(range, "fields/gray-scott/centre").uniform(2 * spots_, -1, 1);
  const auto x = periodic_points(-1, 1, points_);
  const auto bells = [&](int64_t axis) {
    const auto away = x - centre.narrow(1, axis * spots_, spots_).unsqueeze(2);
    const auto nearest = away - kSide * torch::round(away / kSide);
    return torch::exp(-0.5 * (nearest / spot_width_).square());
  };  // (N, M, X)
  const auto sum = torch::matmul(bells(0).transpose(1, 2), bells(1));
  const auto spots = -torch::expm1(-sum) / -std::expm1(-1.0);
  const auto most = torch::clamp_max(spots, 1);
  return torch::stack({1 - 0.5 * most, 0.25 * most}, 1);
}

Tensor GrayScott::parameters(const CaseRange& range) const {
  return torch::cat({CaseDraws(range, "fields/gray-scott/feed")
                         .uniform(1, feed_min_, feed_max_),
                     CaseDraws(range, "fields/gray-scott/kill")
                         .uniform(1, kill_min_, kill_max_)},
                    1);
}

AxisBasis GrayScott::basis(int64_t points,
                           const torch::TensorOptions& where) const {
  return AxisBasis::periodic(points, kSide, laplacian_, where);
}

}  // namespace propagator::physics
