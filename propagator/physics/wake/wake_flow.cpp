#include "propagator/physics/wake/wake_flow.h"

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"

namespace propagator::physics {
namespace {

// Backward differences of order 1, 2, 3: Δt ω′ = lead ω + Σ past_i ω_{-i}, and
// the extrapolation Σ ahead_i f_{-i} of what is explicit.
struct BackwardDifference {
  double lead, past[3], ahead[3];
};
constexpr BackwardDifference kOrders[] = {
    {1, {-1, 0, 0}, {1, 0, 0}},
    {1.5, {-2, 0.5, 0}, {2, -1, 0}},
    {11.0 / 6, {-3, 1.5, -1.0 / 3}, {3, -3, 1}}};
constexpr int64_t kPast = 3;

// The coefficients of each order as the history holds them, its newest place
// first at 0, 1, 2.
std::vector<torch::Tensor> history_weights(const torch::TensorOptions& where) {
  std::vector<torch::Tensor> all;
  for (const auto& order : kOrders) {
    for (int64_t newest = 0; newest < kPast; ++newest) {
      auto weights = torch::zeros({1, 2 * kPast}, torch::kFloat64);
      for (int64_t age = 0; age < kPast; ++age) {
        const int64_t place = (newest + kPast - age) % kPast;
        weights[0][place] = order.past[age];
        weights[0][kPast + place] = order.ahead[age];
      }
      all.push_back(weights.to(where));
    }
  }
  return all;
}

}  // namespace

void WakeFlowOptions::describe(config::Schema& s) {
  s.field("reynolds", reynolds,
          {.help = "Reynolds number U D / nu; vortices are shed above about "
                   "47, and above about 190 the true flow is no longer plane",
           .min = 1,
           .max = 300});
  describe_grid(s);
}

void WakeFlowOptions::describe_grid(config::Schema& s) {
  s.field("modes", modes,
          {.help = "Fourier modes of the angle",
           .min = 8,
           .max = 1024,
           .memory = true});
  s.field("rings", rings,
          {.help = "rings from the wall to the outer radius, evenly spaced in "
                   "ln r",
           .min = 32,
           .max = 4096,
           .memory = true});
  s.field("outer_radius", outer_radius,
          {.help = "where the computed flow ends",
           .unit = "D",
           .min = 5,
           .max = 1000});
  s.field("sponge_radius", sponge_radius,
          {.help = "from here outwards the viscosity grows, which smooths the "
                   "far wake; beyond, the flow is not that of the equations",
           .unit = "D",
           .min = 2,
           .max = 1000});
  s.field("sponge", sponge,
          {.help = "viscosity that is added from twice the sponge radius on, "
                   "over U r / modes",
           .min = 0,
           .max = 100});
  s.field("dt", time_step,
          {.help = "largest time step; the one taken divides the interval of "
                   "snapshots",
           .unit = "D/U",
           .min = 1e-6,
           .max = 0.1});
  s.field("perturbation", perturbation,
          {.help = "vorticity of the two eddies, behind the cylinder, that "
                   "break the symmetry at first; 0 keeps it",
           .unit = "U/D",
           .min = 0,
           .max = 10});
}

void WakeFlowOptions::validate() const {
  if (outer_radius >= 2 * sponge_radius) return;
  throw ConfigError(
      "wake.outer_radius",
      fmt::format("expected at least 2 wake.sponge_radius = {}, got {}",
                  2 * sponge_radius, outer_radius),
      "the wake must be smooth where it leaves");
}

WakeFlow::Implicit::Implicit(const WakeFlow& flow, int order)
    : scale(flow.grid_.radius().square() /
            (flow.viscosity_of_rings() * flow.time_step_)),
      solver(flow.grid_.spacing(),
             flow.grid_.wave_number().square() + scale * kOrders[order].lead,
             torch::zeros_like(flow.grid_.wave_number())) {
  const auto& grid = flow.grid_;
  const auto none =
      torch::zeros({2, grid.rings(), grid.modes()}, grid.options());
  const auto wall = torch::ones_like(flow.nothing_);
  const auto response = solver.solve(none, wall, flow.nothing_);
  mean = response[0].narrow(-1, 0, 1).contiguous();
  mean_slope = solver.wall_slope(response, none)[0].narrow(0, 0, 1).clone();
  const auto source = response * flow.minus_r2_;
  const auto answer = flow.poisson_.solve(source, flow.nothing_, flow.nothing_);
  vorticity = response[0].contiguous();
  stream = answer[0].contiguous();
  slope = flow.poisson_.wall_slope(answer, source)[0].contiguous();
  // ψ = ξ is free at k = 0, and no vorticity goes with it.
  vorticity.select(1, 0).fill_(0);
  stream.select(1, 0).copy_(torch::arange(grid.rings(), grid.options()) *
                            grid.spacing());
  slope[0] = 1;
}

WakeFlow::WakeFlow(const WakeFlowOptions& options, double time_step,
                   const torch::Device& device)
    : options_(options),
      time_step_(time_step),
      grid_(options.rings, options.modes, options.outer_radius, device),
      minus_r2_(grid_.radius().square().neg()),
      nothing_(torch::zeros({2, options.modes}, grid_.options())),
      outer_(torch::zeros({2, options.modes}, grid_.options())),
      rate_(time_step / grid_.radius().square()),
      poisson_(
          grid_.spacing(),
          grid_.wave_number().square().expand({options.rings, options.modes}),
          grid_.wave_number()),
      weights_(history_weights(grid_.options())),
      history_(torch::zeros({2 * kPast, 2 * options.rings * options.modes},
                            grid_.options())) {
  // ψ = U r sin θ has ψ_ξ + ψ = 2 U r sin θ.
  outer_[1][1] = 2 * options.stream * options.outer_radius;
  for (int order = 0; order < 3; ++order) implicit_.emplace_back(*this, order);
  start_from(perturbation());
}

torch::Tensor WakeFlow::viscosity_of_rings() const {
  const auto& r = grid_.radius();
  const auto ramp = (r / options_.sponge_radius - 1).clamp(0, 1);
  const double added = options_.sponge / static_cast<double>(options_.modes);
  return viscosity() + added * r * ramp.square() * (3 - 2 * ramp);
}

// Two eddies of opposite sign on the axis, one behind the other, so that no
// circulation is added.
torch::Tensor WakeFlow::perturbation() const {
  return grid_.modes_of([&](const torch::Tensor& r, const torch::Tensor& t) {
    const auto x = r * torch::cos(t) - 1.5, y = r * torch::sin(t);
    return options_.perturbation * options_.stream * x *
           torch::exp(-2 * (x.square() + y.square()));
  });
}

torch::Tensor WakeFlow::solve_stream(const torch::Tensor& source) const {
  return poisson_.solve(source, nothing_, outer_);
}

void WakeFlow::start_from(const torch::Tensor& vorticity) {
  steps_ = 0;
  vorticity_ = vorticity;
  const auto source = vorticity * minus_r2_;
  auto stream = solve_stream(source);
  // No mean flow along the wall; the other modes slip until the first step.
  const auto slope = poisson_.wall_slope(stream, source).narrow(1, 0, 1);
  stream.narrow(2, 0, 1).sub_(slope.unsqueeze(1) *
                              implicit_[0].stream.narrow(1, 0, 1));
  stream_ = {stream};
}

torch::Tensor WakeFlow::advection(const torch::Tensor& stream,
                                  const torch::Tensor& vorticity) const {
  // Both fields at once, and all four factors through one product: the sizes
  // are small, and every call costs.
  const auto both = torch::stack({stream, vorticity});
  const auto at_points = grid_.to_points(
      torch::cat({grid_.d_theta(both), grid_.d_xi(both)}));  // (4, 2, n, P)
  auto sum = torch::zeros_like(at_points[0]);
  add_product(sum, at_points[0], at_points[3], 1);
  add_product(sum, at_points[2], at_points[1], -1);
  return grid_.to_modes(sum);
}

void WakeFlow::step() {
  const int64_t order = std::min<int64_t>(steps_, 2), newest = steps_ % kPast;
  const auto shape = vorticity_.sizes();
  history_[newest].copy_(vorticity_.flatten());
  auto advected = history_[kPast + newest].view(shape);
  torch::mul_out(advected, advection(stream_[0], vorticity_), rate_);
  const auto& implicit = implicit_[order];
  const auto source =
      torch::mm(weights_[order * kPast + newest], history_).view(shape) *
      implicit.scale;
  vorticity_ = implicit.solver.solve(source, nothing_, nothing_);
  add_wall_vorticity(implicit, source);
  ++steps_;
}

void WakeFlow::add_wall_vorticity(const Implicit& implicit,
                                  const torch::Tensor& source) {
  const auto mean_slope =
      implicit.solver.wall_slope(vorticity_, source).narrow(1, 0, 1);
  vorticity_.narrow(2, 0, 1).sub_(
      (mean_slope / implicit.mean_slope).unsqueeze(1) * implicit.mean);
  const auto curl = vorticity_ * minus_r2_;
  auto stream = solve_stream(curl);
  const auto amount =
      (poisson_.wall_slope(stream, curl) / implicit.slope).unsqueeze(1);
  vorticity_.addcmul_(amount, implicit.vorticity, -1);
  stream.addcmul_(amount, implicit.stream, -1);
  remember_stream(std::move(stream));
}

void WakeFlow::remember_stream(torch::Tensor stream) {
  stream_.insert(stream_.begin(), std::move(stream));
  if (stream_.size() > kPast + 1) stream_.pop_back();
}

torch::Tensor WakeFlow::stream_rate() const {
  if (stream_.size() < 2) return torch::zeros_like(stream());
  const auto& order = kOrders[stream_.size() - 2];
  auto rate = stream_[0] * order.lead;
  for (size_t age = 1; age < stream_.size(); ++age) {
    rate.add_(stream_[age], order.past[age - 1]);
  }
  return rate / time_step_;
}

torch::Tensor WakeFlow::forces() const {
  const auto first = (grid_.d_xi_at_wall(vorticity_) - vorticity_.select(1, 0))
                         .select(1, 1);  // of cos θ, of sin θ
  const double scale = std::numbers::pi * viscosity();
  return torch::stack({first[1] * scale, first[0] * -scale});
}

void WakeFlow::expect_finite() const {
  const double largest = vorticity_.abs().max().item<double>();
  if (std::isfinite(largest) && largest < 1e6) return;
  throw NumericalError(
      fmt::format("[wake] the flow is not finite at time {:.6g}, with time "
                  "step {:.6g}",
                  time(), time_step_),
      "set a smaller wake.dt, or a larger wake.sponge if the wake had come "
      "far");
}

}  // namespace propagator::physics
