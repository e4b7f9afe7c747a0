#include "propagator/physics/fields/shallow_water.h"

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/physics/fields/case_draws.h"

namespace propagator::physics {
namespace {

using torch::Tensor;

constexpr int64_t kGhosts = 2;
constexpr int64_t kSamples = 8;  // of a cell, along each axis

// State (N, 3, X, Y) with two more cells at each end of the last axis, whose
// momentum is channel `normal`.
Tensor with_ghosts(const Tensor& state, Boundary boundary, int64_t normal) {
  const int64_t n = state.size(3);
  const auto low = [&](int64_t from) { return state.narrow(3, from, kGhosts); };
  if (boundary == Boundary::kPeriodic) {
    return torch::cat({low(n - kGhosts), state, low(0)}, 3);
  }
  if (boundary == Boundary::kOpen) {
    const auto first = state.narrow(3, 0, 1), last = state.narrow(3, n - 1, 1);
    return torch::cat({first, first, state, last, last}, 3);
  }
  auto sign = torch::ones({1, 3, 1, 1}, state.options());
  sign.select(1, normal).fill_(-1);
  return torch::cat(
      {sign * low(0).flip(3), state, sign * low(n - kGhosts).flip(3)}, 3);
}

// Depth, and the velocities along and across the axis.
struct Water {
  Tensor h, u, v;
};

// Van Leer's mean of two slopes: 0 where their signs differ.
Tensor limited(const Tensor& a, const Tensor& b) {
  const auto product = torch::clamp_min(a * b, 0);
  const auto sum = a + b;
  const auto safe = torch::where(product > 0, sum, torch::ones_like(sum));
  return 2 * product / safe;
}

// A quantity on both sides of the faces between n + 4 cells, n + 1 each.
std::pair<Tensor, Tensor> at_faces(const Tensor& q) {
  const auto difference =
      q.narrow(2, 1, q.size(2) - 1) - q.narrow(2, 0, q.size(2) - 1);
  const int64_t inner = q.size(2) - 2;  // cells that have slopes
  const auto half = 0.5 * limited(difference.narrow(2, 0, inner),
                                  difference.narrow(2, 1, inner));
  const auto middle = q.narrow(2, 1, inner);
  return {(middle + half).narrow(2, 0, inner - 1),
          (middle - half).narrow(2, 1, inner - 1)};
}

// Flux of (h, h u, h v) through faces, (N, 3, Y, faces): between the slowest
// and the fastest wave the mean of both sides with just enough diffusion; what
// moves across goes with the water.
Tensor flux_between(const Water& left, const Water& right, double g) {
  const auto cl = torch::sqrt(g * left.h), cr = torch::sqrt(g * right.h);
  const auto rl = torch::sqrt(left.h), rr = torch::sqrt(right.h);
  const auto mean_u = (rl * left.u + rr * right.u) / (rl + rr);
  const auto mean_c = torch::sqrt(0.5 * g * (left.h + right.h));
  const auto slow =
      torch::clamp_max(torch::minimum(left.u - cl, mean_u - mean_c), 0);
  const auto fast =
      torch::clamp_min(torch::maximum(right.u + cr, mean_u + mean_c), 0);
  const auto between = [&](const Tensor& fl, const Tensor& fr, const Tensor& ql,
                           const Tensor& qr) {
    return (fast * fl - slow * fr + slow * fast * (qr - ql)) / (fast - slow);
  };
  const auto ml = left.h * left.u, mr = right.h * right.u;
  const auto mass = between(ml, mr, left.h, right.h);
  const auto momentum =
      between(ml * left.u + 0.5 * g * left.h * left.h,
              mr * right.u + 0.5 * g * right.h * right.h, ml, mr);
  const auto across = mass * torch::where(mass > 0, left.v, right.v);
  return torch::stack({mass, momentum, across}, 1);
}

// -∂F/∂x along the last axis; `normal` is the channel of its momentum.
Tensor rate_along(const Tensor& state, int64_t normal, double spacing,
                  Boundary boundary, double g) {
  const auto wide = with_ghosts(state, boundary, normal);
  const auto h = wide.select(1, 0);
  const auto u = at_faces(wide.select(1, normal) / h);
  const auto v = at_faces(wide.select(1, 3 - normal) / h);
  const auto depth = at_faces(h);
  auto flux = flux_between({depth.first, u.first, v.first},
                           {depth.second, u.second, v.second}, g);
  if (normal == 2) {
    flux = flux.index_select(
        1, torch::tensor({0, 2, 1}, torch::kInt64).to(flux.device()));
  }
  const int64_t n = state.size(3);
  return (flux.narrow(3, 0, n) - flux.narrow(3, 1, n)) / spacing;
}

}  // namespace

DamBreak DamBreak::between(double left, double right, double g) {
  // What a rarefaction lets flow falls with the middle height, and what a shock
  // takes rises with it: halve the interval.
  const auto excess = [&](double h) {
    const double wave = 2 * (std::sqrt(g * left) - std::sqrt(g * h));
    const double shock =
        (h - right) * std::sqrt(g / 2 * (h + right) / (h * right));
    return wave - shock;
  };
  double low = right, high = left;
  for (int n = 0; n < 200; ++n) {
    const double middle = (low + high) / 2;
    (excess(middle) > 0 ? low : high) = middle;
  }
  const double h = (low + high) / 2;
  const double speed = 2 * (std::sqrt(g * left) - std::sqrt(g * h));
  const double shock = h > right ? h * speed / (h - right) : std::sqrt(g * h);
  return {.height = h, .speed = speed, .shock = shock};
}

void ShallowWater::describe(config::Schema& s) {
  s.field("points", points_,
          {.help = "cells along x", .min = 4, .max = 4096, .memory = true});
  s.field("points_y", points_y_,
          {.help = "cells along y, of the same size; 0: as many as along x",
           .min = 0,
           .max = 4096,
           .memory = true});
  times_.describe(s);
  s.field("gravity", gravity_,
          {.help = "gravity", .unit = "length/time²", .min = 1e-6, .max = 1e3});
  s.field("half_side", half_side_,
          {.help = "x goes from minus this to this",
           .unit = "length",
           .min = 1e-3,
           .max = 1e6});
  s.field("initial", start_,
          {.help = "radial: a round column breaks down; planar: all water left "
                   "of x = 0 does; still: nothing moves"});
  s.field("height", height_,
          {.help = "height of the water that breaks down",
           .unit = "length",
           .min = 1e-3,
           .max = 1e3});
  s.field("depth", depth_,
          {.help = "height of the water around it",
           .unit = "length",
           .min = 1e-3,
           .max = 1e3});
  s.field("radius_min", radius_min_,
          {.help = "smallest radius of a round column",
           .unit = "length",
           .min = 0,
           .max = 1e6});
  s.field("radius_max", radius_max_,
          {.help = "largest radius of a round column",
           .unit = "length",
           .min = 0,
           .max = 1e6});
  s.field("boundary", boundary_,
          {.help = "what water does at the sides: it comes back on the other "
                   "side, is reflected, or leaves"});
  s.field("courant", courant_,
          {.help = "time step, as a share of the time in which the fastest "
                   "wave passes a cell",
           .min = 0.01,
           .max = 0.5});
}

void ShallowWater::validate() const {
  expect_rising("field.height", depth_, height_);
  expect_rising("field.radius_max", radius_min_, radius_max_);
}

FieldLayout ShallowWater::layout() const {
  const int64_t rows = points_y_ > 0 ? points_y_ : points_;
  const double half_y =
      half_side_ * static_cast<double>(rows) / static_cast<double>(points_);
  return {
      .times = times_.at(),
      .axes = {{"x", cell_centres(-half_side_, half_side_, points_), boundary_},
               {"y", cell_centres(-half_y, half_y, rows), boundary_}},
      .channels = {"h", "hu", "hv"},
      .parameters = {"radius"}};
}

// Of a broken dam |u| + √(gh) is at most 2 √(g h_left), even on a dry bed.
double ShallowWater::fastest() const {
  return 2 * std::sqrt(gravity_ * height_);
}

Tensor ShallowWater::radii(const CaseRange& range) const {
  return CaseDraws(range, "fields/shallow-water/radius")
      .uniform(1, radius_min_, radius_max_)
      .select(1, 0);
}

Tensor ShallowWater::initial(const CaseRange& range, int64_t finer) const {
  const auto axes = layout().axes;
  const auto samples = [&](const Tensor& at) {
    const int64_t n = at.numel() * finer * kSamples;
    const double spacing =
        (at[1] - at[0]).item<double>() / static_cast<double>(finer * kSamples);
    const double half = spacing * static_cast<double>(n) / 2;
    return cell_centres(-half, half, n);
  };
  const auto x = samples(axes[0].at).unsqueeze(1), y = samples(axes[1].at);
  std::vector<Tensor> heights;
  const auto radius = radii(range);
  for (int64_t n = 0; n < range.count; ++n) {
    const auto inside =
        start_ == WaterStart::kRadial
            ? x.square() + y.square() < radius[n].square()
            : (start_ == WaterStart::kPlanar ? x < 0 : x > x.max() + 1)
                  .expand({x.size(0), y.size(0)});
    const auto share = inside.to(torch::kFloat64)
                           .view({x.size(0) / kSamples, kSamples, -1, kSamples})
                           .mean({1, 3});
    heights.push_back(depth_ + (height_ - depth_) * share);
  }
  const auto h = torch::stack(heights);
  return torch::stack({h, torch::zeros_like(h), torch::zeros_like(h)}, 1);
}

void ShallowWater::march(
    Tensor state, int64_t count,
    const std::function<void(const Tensor& state)>& take) const {
  const double spacing = 2 * half_side_ / static_cast<double>(state.size(2));
  const int64_t steps =
      std::lround(std::ceil(times_.step() * fastest() / (courant_ * spacing)));
  const double dt = times_.step() / static_cast<double>(steps);
  const auto rate = [&](const Tensor& q) {
    const auto along_y = rate_along(q, 2, spacing, boundary_, gravity_);
    const auto along_x =
        rate_along(q.transpose(2, 3), 1, spacing, boundary_, gravity_);
    return along_x.transpose(2, 3) + along_y;
  };
  for (int64_t n = 0; n < count; ++n) {
    for (int64_t m = 0; m < steps; ++m) {
      const auto next = state + dt * rate(state);
      state = 0.5 * (state + next + dt * rate(next));
    }
    take(state);
  }
}

Tensor ShallowWater::frames(const CaseRange& range, int64_t finer) const {
  const auto begin = initial(range, finer).to(range.where);  // (N, 3, X, Y)
  std::vector<Tensor> all;
  const auto keep = [&](const Tensor& q) {  // as (N, X, Y, 3)
    expect_finite(q, static_cast<double>(all.size()) * times_.step(),
                  "a smaller field.courant");
    const auto cells = finer == 1 ? q
                                  : q.view({q.size(0), 3, q.size(2) / finer,
                                            finer, q.size(3) / finer, finer})
                                        .mean({3, 5});
    all.push_back(cells.permute({0, 2, 3, 1}).contiguous());
    range.frame_done();
  };
  keep(begin);
  march(begin, times_.frames - 1, keep);
  return torch::stack(all, 1);
}

Tensor ShallowWater::continued(const Tensor& states, const Tensor&,
                               int64_t count) const {
  std::vector<Tensor> all;
  march(states.permute({0, 3, 1, 2}).contiguous(), count, [&](const Tensor& q) {
    all.push_back(q.permute({0, 2, 3, 1}));
  });
  return torch::stack(all, 1);
}

std::vector<std::string> ShallowWater::conserved() const {
  // Of open sides waves take water with them.
  if (boundary_ == Boundary::kOpen) return {};
  return {"h"};
}

FieldCases ShallowWater::solve(const CaseRange& range) const {
  return {frames(range, 1), radii(range).unsqueeze(1)};
}

std::map<std::string, double> ShallowWater::assess(const CaseRange& range,
                                                   const FieldCases& found,
                                                   FieldCheck check) const {
  const auto values =
      found.values.narrow(0, 0, 1).to(torch::kCPU, torch::kFloat64);
  std::map<std::string, double> numbers{
      {"mass_drift", largest_drift(values.select(4, 0))},
      {"lowest", values.select(4, 0).min().item<double>()}};
  if (start_ == WaterStart::kStill) {
    numbers["still_error"] =
        (values - values.narrow(1, 0, 1)).abs().max().item<double>();
  }
  if (start_ == WaterStart::kPlanar) {
    // The exact solution along x at the last time: rarefaction, middle, shock.
    const auto dam = DamBreak::between(height_, depth_, gravity_);
    const auto speed = layout().axes[0].at / times_.end;
    const double c = std::sqrt(gravity_ * height_);
    const double tail = dam.speed - std::sqrt(gravity_ * dam.height);
    const auto fan = (2 * c - speed).square() / (9 * gravity_);
    auto exact =
        torch::where(speed < -c, torch::full_like(speed, height_), fan);
    exact =
        torch::where(speed > tail, torch::full_like(speed, dam.height), exact);
    exact =
        torch::where(speed > dam.shock, torch::full_like(speed, depth_), exact);
    const auto last = values[0].select(0, -1).select(1, 0);  // (X, 3)
    const auto middle = torch::argmin((speed - (tail + dam.shock) / 2).abs());
    const auto at = last.index_select(0, middle.view({1}))[0];
    numbers["middle_height_error"] =
        std::abs(at[0].item<double>() / dam.height - 1);
    numbers["middle_speed_error"] =
        std::abs(at[1].item<double>() / at[0].item<double>() / dam.speed - 1);
    numbers["l1_error"] =
        (last.select(1, 0) - exact).abs().mean().item<double>();
  }
  if (check == FieldCheck::kFull) {
    numbers["grid_error"] = relative_l2(values, frames(range.one(), 2).cpu());
  }
  return numbers;
}

}  // namespace propagator::physics
