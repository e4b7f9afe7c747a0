#include "propagator/physics/fields/heat_fields.h"

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/physics/fields/case_draws.h"

namespace propagator::physics {
namespace {

using torch::Tensor;

constexpr double kPi = std::numbers::pi;

// sin(π k x) of k = 1 … modes at the points, (K, X).
Tensor sines(int64_t modes, const Tensor& x) {
  const auto k = torch::arange(1, modes + 1, x.options());
  return torch::sin(kPi * torch::outer(k, x));
}

// |k|² of all of 1 … modes along each of `dims` axes.
Tensor squared_modes(int64_t modes, int64_t dims,
                     const torch::TensorOptions& where) {
  const auto k = torch::arange(1, modes + 1, where).square();
  if (dims == 1) return k;
  if (dims == 2) return k.unsqueeze(1) + k;
  return k.view({-1, 1, 1}) + k.view({-1, 1}) + k;
}

// sinh(κ (1 - r)) / sinh κ: from 1 on a face to 0 on the one opposite, without
// the overflow of sinh. (K…, X)
Tensor into_the_domain(const Tensor& decay, const Tensor& r) {
  const auto k = decay.unsqueeze(-1);
  return torch::exp(-k * r) * torch::expm1(-2 * k * (1 - r)) /
         torch::expm1(-2 * k);
}

// Along `axis` of (N, …), matrix (X, K) times numbers (K).
Tensor along(const Tensor& values, int64_t axis, const Tensor& matrix) {
  return torch::matmul(values.transpose(axis, -1), matrix.t())
      .transpose(axis, -1);
}

// The same at all points of each axis but the batch's.
Tensor along_all(Tensor values, const Tensor& matrix) {
  for (int64_t axis = 1; axis < values.dim(); ++axis) {
    values = along(values, axis, matrix);
  }
  return values;
}

// By second differences, at the points of (N, X, Y[, Z]) inside the faces.
Tensor laplacian_inside(const Tensor& values, double spacing) {
  Tensor sum;
  for (int64_t axis = 1; axis < values.dim(); ++axis) {
    const int64_t n = values.size(axis) - 2;
    auto second = values.narrow(axis, 0, n) - 2 * values.narrow(axis, 1, n) +
                  values.narrow(axis, 2, n);
    for (int64_t other = 1; other < values.dim(); ++other) {
      if (other != axis) second = second.narrow(other, 1, n);
    }
    sum = sum.defined() ? sum + second : second;
  }
  return sum / (spacing * spacing);
}

// (X, K): coefficients of sines from values on the points, which are 0 on both
// faces.
Tensor to_sines(const Tensor& profile) {
  return profile.t() * (2 / static_cast<double>(profile.size(1) - 1));
}

// The harmonic function with the values that (N, X, Y) has on the faces.
Tensor harmonic_in_square(const Tensor& states, const Tensor& x,
                          const Tensor& y) {
  const int64_t last[] = {x.numel() - 1, y.numel() - 1};
  const auto corners =
      torch::stack({states.select(1, 0), states.select(1, last[0])}, 1);
  const auto four =
      torch::stack({corners.select(2, 0), corners.select(2, last[1])}, 2);
  auto total = along(along(four, 1, torch::stack({1 - x, x}, 1)), 2,
                     torch::stack({1 - y, y}, 1));
  const auto rest = states - total;  // 0 in the corners
  for (const int64_t across : {1, 2}) {
    const auto& along_face = across == 1 ? y : x;
    const auto profile = sines(along_face.numel() - 2, along_face);
    const auto k = torch::arange(1, profile.size(0) + 1, x.options());
    const auto near = into_the_domain(kPi * k, across == 1 ? x : y);
    for (const bool high : {false, true}) {
      const auto face = rest.select(across, high ? last[across - 1] : 0);
      const auto part = torch::einsum("bk,ki,kj->bij",
                                      {torch::matmul(face, to_sines(profile)),
                                       high ? near.flip(-1) : near, profile});
      total = total + (across == 1 ? part : part.transpose(1, 2));
    }
  }
  return total;
}

}  // namespace

Tensor diffused(const Tensor& states, double diffusion) {
  const auto points = [&](int64_t axis) {
    return points_with_ends(0, 1, states.size(axis)).to(states.options());
  };
  const auto still = harmonic_in_square(states, points(1), points(2));
  auto rest = states - still;  // 0 on the faces
  for (const int64_t axis : {1, 2}) {
    const auto profile = sines(states.size(axis) - 2, points(axis));
    const auto k = torch::arange(1, profile.size(0) + 1, profile.options());
    const auto decay = torch::exp(-kPi * kPi * diffusion * k.square());
    rest = along(rest, axis,
                 torch::matmul(profile.t() * decay, to_sines(profile).t()));
  }
  return still + rest;
}

Tensor HeatFields::continued(const Tensor& states, const Tensor& parameters,
                             int64_t count) const {
  if (!continues()) return {};
  const auto points =
      points_with_ends(0, 1, states.size(1)).to(states.options());
  const auto u = states.select(3, 0);
  const auto still = harmonic_in_square(u, points, points);
  const auto profile = sines(states.size(1) - 2, points);
  const auto waves = along_all(u - still, to_sines(profile).t());  // (N, K, K)
  const auto rates =
      kPi * kPi * squared_modes(profile.size(0), 2, profile.options());
  const auto diffusion =
      (times_.step() * parameters).to(states.options()).view({-1, 1, 1});
  std::vector<Tensor> all;
  for (int64_t n = 1; n <= count; ++n) {
    const auto decay =
        torch::exp(-static_cast<double>(n) * (diffusion * rates));
    all.push_back(still + along_all(waves * decay, profile.t()));
  }
  return torch::stack(all, 1).unsqueeze(-1);
}

void HeatFields::describe(config::Schema& s) {
  s.field("dims", dims_,
          {.help = "dimensions of the domain: a square or a cube",
           .min = 2,
           .max = 3});
  s.field("points", points_,
          {.help = "points along each axis, those on the faces among them",
           .min = 5,
           .max = 2048,
           .memory = true});
  times_.describe(s);
  const auto alpha = [&](const char* name, double& value, const char* help) {
    s.field(name, value,
            {.help = help, .unit = "side²/time", .min = 1e-9, .max = 1e3});
  };
  alpha("diffusivity_min", diffusivity_min_,
        "lowest diffusivity of a case; with field.diffusivity_max equal to it "
        "that of all, else logarithms are drawn");
  alpha("diffusivity_max", diffusivity_max_, "highest diffusivity of a case");
  s.field("modes", modes_,
          {.help = "sines along each axis of the initial difference from the "
                   "steady state",
           .min = 1,
           .max = 512});
  s.field("amplitude", amplitude_,
          {.help = "standard deviation of the longest sine of that difference",
           .min = 0,
           .max = 1e6});
  s.field("roughness", roughness_,
          {.help = "exponent by which sines weaken with their wave number; a "
                   "small one makes a rough field",
           .min = 0,
           .max = 10});
  s.field("boundary_modes", boundary_modes_,
          {.help = "sines along each face of its temperature",
           .min = 0,
           .max = 64});
  s.field("boundary_amplitude", boundary_amplitude_,
          {.help = "standard deviation of the temperature in a corner, and of "
                   "a face's longest sine",
           .min = 0,
           .max = 1e6});
}

void HeatFields::validate() const {
  expect_rising("field.diffusivity_max", diffusivity_min_, diffusivity_max_);
  if (modes_ > points_ - 2) {
    throw ConfigError(
        "field.modes",
        fmt::format("expected at most field.points - 2 = {}, got {}",
                    points_ - 2, modes_),
        "shorter waves need more points");
  }
  if (dims_ == 3 && points_ > 256) {
    throw ConfigError(
        "field.points",
        fmt::format("expected at most 256 in 3-D, got {}", points_));
  }
}

FieldLayout HeatFields::layout() const {
  FieldLayout layout{.times = times_.at(),
                     .axes = {},
                     .channels = {"temperature"},
                     .parameters = {"diffusivity"}};
  for (const char* name : {"x", "y", "z"}) {
    if (static_cast<int64_t>(layout.axes.size()) == dims_) break;
    layout.axes.push_back(
        {name, points_with_ends(0, 1, points_), Boundary::kWall});
  }
  return layout;
}

Tensor HeatFields::diffusivities(const CaseRange& range) const {
  return CaseDraws(range, "fields/heat/diffusivity")
      .log_uniform(1, diffusivity_min_, diffusivity_max_)
      .select(1, 0);
}

Tensor HeatFields::coefficients(const CaseRange& range) const {
  const auto squares = squared_modes(modes_, dims_, torch::kFloat64);
  const auto scale =
      amplitude_ *
      torch::pow(squares / static_cast<double>(dims_), -roughness_ / 2);
  auto shape = scale.sizes().vec();
  shape.insert(shape.begin(), range.count);
  return CaseDraws(range, "fields/heat/initial")
             .normal(scale.numel())
             .view(shape) *
         scale;
}

Tensor HeatFields::steady(const CaseRange& range) const {
  const auto device = range.where.device();
  const auto x = points_with_ends(0, 1, points_).to(device);
  // Linear along each axis from corner to corner.
  std::vector<int64_t> corners(static_cast<size_t>(dims_) + 1, 2);
  corners[0] = range.count;
  auto total = along_all((CaseDraws(range, "fields/heat/corners")
                              .normal(int64_t{1} << dims_)
                              .view(corners) *
                          boundary_amplitude_)
                             .to(device),
                         torch::stack({1 - x, x}, 1));
  if (boundary_modes_ == 0) return total;
  const int64_t k = boundary_modes_;
  const auto squares = squared_modes(k, dims_ - 1, x.options());
  const auto scale = boundary_amplitude_ *
                     torch::rsqrt(squares / static_cast<double>(dims_ - 1));
  const auto near = into_the_domain(kPi * torch::sqrt(squares), x);
  const auto profile = sines(k, x);  // (K, X)
  const auto drawn = CaseDraws(range, "fields/heat/faces")
                         .normal(2 * dims_ * squares.numel())
                         .to(device);
  for (int64_t face = 0; face < 2 * dims_; ++face) {
    const auto own = drawn.narrow(1, face * squares.numel(), squares.numel());
    const auto reach = face % 2 == 0 ? near : near.flip(-1);
    Tensor part;  // (N, across the face, along it…)
    if (dims_ == 2) {
      part = torch::einsum("bk,ki,kj->bij", {own * scale, reach, profile});
    } else {
      part =
          torch::einsum("bkl,kli->bikl", {own.view({-1, k, k}) * scale, reach});
      part = along(along(part, 2, profile.t()), 3, profile.t());
    }
    total += part.transpose(1, 1 + face / 2);
  }
  return total;
}

FieldCases HeatFields::solve(const CaseRange& range) const {
  const auto device = range.where.device();
  const auto alpha = diffusivities(range);
  const auto still = steady(range);
  const auto initial = coefficients(range).to(device);
  const auto matrix =
      sines(modes_, points_with_ends(0, 1, points_).to(device)).t();
  const auto squares = squared_modes(modes_, dims_, matrix.options());
  std::vector<int64_t> each(static_cast<size_t>(dims_) + 1, 1);
  each[0] = range.count;
  const auto rate = kPi * kPi * squares * alpha.to(device).view(each);
  auto shape = still.sizes().vec();
  shape.insert(shape.begin() + 1, times_.frames);
  auto values = torch::empty(shape, range.where);
  for (int64_t n = 0; n < times_.frames; ++n) {
    const double time = static_cast<double>(n) * times_.step();
    values.select(1, n).copy_(
        still + along_all(initial * torch::exp(-rate * time), matrix));
    range.frame_done();
  }
  return {values.unsqueeze(-1), alpha.unsqueeze(1)};
}

std::map<std::string, double> HeatFields::assess(const CaseRange& range,
                                                 const FieldCases& found,
                                                 FieldCheck check) const {
  const auto frames =
      found.values.narrow(0, 0, 1).select(-1, 0).to(torch::kFloat64);
  const double scale = frames.abs().max().item<double>();
  auto change = frames - frames.narrow(1, 0, 1);  // (1, T, space…)
  double on_faces = 0;
  for (int64_t axis = 2; axis < frames.dim(); ++axis) {
    for (const int64_t end : {int64_t{0}, points_ - 1}) {
      on_faces = std::max(on_faces,
                          change.select(axis, end).abs().max().item<double>());
    }
  }
  std::map<std::string, double> numbers{{"face_drift", on_faces / scale}};
  if (check != FieldCheck::kFull) return numbers;
  // The classical solver: explicit Euler on the same points.
  const double alpha = diffusivities(range.one())[0].item<double>();
  const double spacing = 1 / static_cast<double>(points_ - 1);
  const double longest =
      0.4 * spacing * spacing / (2 * static_cast<double>(dims_) * alpha);
  const auto steps = static_cast<int64_t>(std::ceil(times_.end / longest));
  const double dt = times_.end / static_cast<double>(steps);
  const auto without_faces = [&](Tensor of) {
    for (int64_t axis = 1; axis <= dims_; ++axis) {
      of = of.narrow(axis, 1, points_ - 2);
    }
    return of;
  };
  auto state = frames.select(1, 0).clone();
  auto inside = without_faces(state);
  for (int64_t n = 0; n < steps; ++n) {
    inside += alpha * dt * laplacian_inside(state, spacing);
  }
  numbers["explicit_error"] =
      relative_l2(inside, without_faces(frames.select(1, -1)));
  return numbers;
}

}  // namespace propagator::physics
