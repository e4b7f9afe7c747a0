#include "propagator/physics/heat_plate.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/core/random.h"

namespace propagator::physics {
namespace {

using torch::indexing::Slice;

// The draws of one case, each with its own place in the case's row of the
// stream: a new one goes at the end and moves none of the others.
enum Draw : int64_t {
  kLeft,
  kRight,
  kTop,
  kBottom,
  kInterior,
  kAlpha,
  kHotSide,
  kColdSide,
  kHotOffset,
  kColdOffset,
};

// One edge of a frame; a segment of it is `length` nodes from `offset`.
torch::Tensor edge(const torch::Tensor& frame, int64_t side) {
  switch (side) {
    case 0:
      return frame.select(1, 0);
    case 1:
      return frame.select(1, -1);
    case 2:
      return frame.select(0, 0);
    default:
      return frame.select(0, -1);
  }
}

void draw_segments(const HeatPlateOptions& o, const RandomStream& stream,
                   int64_t n, const torch::Tensor& frame) {
  const int64_t length = o.segment_length;
  if (o.configuration == PlateConfiguration::kChallenge1) {
    edge(frame, 0).narrow(0, o.segment_start, length).fill_(1);
    edge(frame, 1).narrow(0, o.segment_start, length).fill_(0);
  }
  if (o.configuration == PlateConfiguration::kChallenge2) {
    // Two different sides; the segment stays clear of the corners.
    const int64_t hot = stream.below(4, n, kHotSide);
    const int64_t cold = (hot + 1 + stream.below(3, n, kColdSide)) % 4;
    const auto place = [&](int64_t side, Draw draw, double value) {
      const auto nodes = edge(frame, side);
      const int64_t places = nodes.size(0) - 2 - length + 1;
      nodes.narrow(0, 1 + stream.below(places, n, draw), length).fill_(value);
    };
    place(hot, kHotOffset, 1);
    place(cold, kColdOffset, 0);
  }
}

// α·dt/dx² and α·dt/dy² of each case.
std::pair<torch::Tensor, torch::Tensor> fourier_numbers(
    const HeatPlateOptions& o, const PlateCases& cases) {
  const auto scaled = cases.alpha * cases.dt;
  return {scaled / (o.dx() * o.dx()), scaled / (o.dy() * o.dy())};
}

// δxx and δyy of the interior nodes: (…, R, C) → (…, R - 2, C - 2).
std::pair<torch::Tensor, torch::Tensor> second_differences(
    const torch::Tensor& t) {
  const auto rows = t.slice(-2, 1, -1), cols = t.slice(-1, 1, -1);
  const auto inner = rows.slice(-1, 1, -1);
  return {rows.slice(-1, 2) - 2 * inner + rows.slice(-1, 0, -2),
          cols.slice(-2, 2) - 2 * inner + cols.slice(-2, 0, -2)};
}

void check_stable(const HeatPlateOptions& o, const PlateCases& cases) {
  const auto alpha = cases.alpha.to(torch::kCPU, torch::kFloat64);
  const auto dt = cases.dt.to(torch::kCPU, torch::kFloat64);
  for (int64_t n = 0; n < cases.size(); ++n) {
    const double a = alpha[n].item<double>(), step = dt[n].item<double>();
    if (!o.is_stable(a, step)) {
      const double largest = o.largest_step(a);
      throw NumericalError(
          fmt::format("[heat_plate] case {}: expected a time step of at most "
                      "{:.6g} for diffusivity {:.6g}, got {:.6g}",
                      n, largest, a, step),
          fmt::format("set plate.dt to at most {:.6g} or plate.time_step=cfl",
                      largest));
    }
  }
}

template <class Real>
void solve_case(int64_t frames, int64_t rows, int64_t cols, Real rx, Real ry,
                Real* field) {
  const int64_t nodes = rows * cols;
  for (int64_t n = 0; n + 1 < frames; ++n) {
    const Real* t = field + n * nodes;
    Real* next = field + (n + 1) * nodes;
    std::memcpy(next, t, nodes * sizeof(Real));
    for (int64_t j = 1; j + 1 < rows; ++j) {
      for (int64_t i = 1; i + 1 < cols; ++i) {
        const int64_t at = j * cols + i;
        next[at] = t[at] + rx * (t[at + 1] - 2 * t[at] + t[at - 1]) +
                   ry * (t[at + cols] - 2 * t[at] + t[at - cols]);
      }
    }
  }
}

// The sine transform of n interior nodes, symmetric and its own inverse, and
// the eigenvalues of -δ² (spacing h) that go with its columns.
std::pair<torch::Tensor, torch::Tensor> sine_modes(int64_t n, double h) {
  const auto k = torch::arange(1, n + 1, torch::kFloat64);
  const double angle = std::numbers::pi / static_cast<double>(n + 1);
  const auto modes = torch::sin(torch::outer(k, k) * angle) *
                     std::sqrt(2.0 / static_cast<double>(n + 1));
  const auto lambda = torch::sin(k * (angle / 2)).square() * (4 / (h * h));
  return {modes, lambda};
}

}  // namespace

void HeatPlateOptions::describe(config::Schema& s) {
  s.field("configuration", configuration,
          {.help = "edges of the plate: plain, with fixed hot and cold "
                   "segments, or with segments at random"});
  s.field("rows", rows, {.help = "nodes from top to bottom", .min = 4});
  s.field("cols", cols, {.help = "nodes from left to right", .min = 4});
  s.field(
      "height", height,
      {.help = "height of the plate", .unit = "m", .min = 1e-9, .max = 1e9});
  s.field("width", width,
          {.help = "width of the plate", .unit = "m", .min = 1e-9, .max = 1e9});
  s.field("frames", frames,
          {.help = "frames of a history, the initial one included", .min = 2});
  s.field("time_step", time_step,
          {.help = "cfl: a fraction of each case's stable step (then alpha "
                   "does nothing); fixed: one step for all"});
  s.field("cfl", cfl,
          {.help = "time step as a fraction of the largest stable one",
           .min = 1e-6,
           .max = 1});
  s.field("dt", dt,
          {.help = "time step of time_step: fixed; 0 takes cfl times the "
                   "stable step of alpha_max",
           .unit = "s",
           .min = 0});
  s.field("alpha_min", alpha_min,
          {.help = "smallest diffusivity", .unit = "m2/s", .min = 1e-12});
  s.field("alpha_max", alpha_max,
          {.help = "largest diffusivity", .unit = "m2/s", .min = 1e-12});
  s.field("segment_start", segment_start,
          {.help = "first node of challenge-1's segments", .min = 0});
  s.field("segment_length", segment_length,
          {.help = "nodes of a hot or cold segment", .min = 1});
}

void HeatPlateOptions::validate() const {
  if (alpha_max < alpha_min) {
    throw ConfigError("plate.alpha_max",
                      fmt::format("expected at least plate.alpha_min = {}, got "
                                  "{}",
                                  alpha_min, alpha_max));
  }
  const bool first = configuration == PlateConfiguration::kChallenge1;
  const bool second = configuration == PlateConfiguration::kChallenge2;
  const int64_t room = second ? std::min(rows, cols) - 2 : rows;
  const int64_t need = segment_length + (first ? segment_start : 0);
  if ((first || second) && need > room) {
    throw ConfigError("plate.segment_length",
                      fmt::format("expected a segment that ends within {} "
                                  "nodes, got one that ends at {}",
                                  room, need));
  }
  if (dt > 0 && time_step == TimeStep::kCfl) {
    throw ConfigError("plate.dt", "has no effect with time_step: cfl",
                      "set plate.time_step=fixed");
  }
  const double largest = largest_step(alpha_max);
  if (time_step == TimeStep::kFixed && dt > largest) {
    throw ConfigError("plate.dt",
                      fmt::format("expected at most {:.6g}, the largest stable "
                                  "step for plate.alpha_max = {}, got {}",
                                  largest, alpha_max, dt));
  }
}

double HeatPlateOptions::largest_step(double alpha) const {
  return 1 / (2 * alpha * (1 / (dx() * dx()) + 1 / (dy() * dy())));
}

double HeatPlateOptions::step(double alpha) const {
  if (time_step == TimeStep::kCfl) return cfl * largest_step(alpha);
  return dt > 0 ? dt : cfl * largest_step(alpha_max);
}

PlateCases PlateCases::select(const torch::Tensor& indices) const {
  return {first.index_select(0, indices), alpha.index_select(0, indices),
          dt.index_select(0, indices)};
}

PlateCases PlateCases::to(const torch::TensorOptions& options) const {
  return {first.to(options), alpha.to(options), dt.to(options)};
}

PlateCases draw_cases(const HeatPlateOptions& o, int64_t seed, int64_t begin,
                      int64_t count) {
  const RandomStream stream(seed, "data");
  PlateCases cases{torch::empty({count, o.rows, o.cols}, torch::kFloat64),
                   torch::empty({count}, torch::kFloat64),
                   torch::empty({count}, torch::kFloat64)};
  for (int64_t k = 0; k < count; ++k) {
    const int64_t n = begin + k;
    const auto frame = cases.first[k];
    frame.fill_(stream.uniform(n, kInterior));
    edge(frame, 0).fill_(stream.uniform(n, kLeft));
    edge(frame, 1).fill_(stream.uniform(n, kRight));
    edge(frame, 2).fill_(stream.uniform(n, kTop));
    edge(frame, 3).fill_(0.1 * stream.uniform(n, kBottom));
    draw_segments(o, stream, n, frame);
    const double alpha =
        o.alpha_min + (o.alpha_max - o.alpha_min) * stream.uniform(n, kAlpha);
    cases.alpha[k] = alpha;
    cases.dt[k] = o.step(alpha);
  }
  return cases;
}

torch::Tensor solve(const HeatPlateOptions& o, const PlateCases& cases) {
  if (!cases.first.is_cpu()) return solve_with_tensors(o, cases);
  check_stable(o, cases);
  const int64_t rows = cases.first.size(1), cols = cases.first.size(2);
  auto field =
      torch::empty({cases.size(), o.frames, rows, cols}, cases.first.options());
  field.select(1, 0).copy_(cases.first);
  // Not a structured binding: clang cannot capture those beside OpenMP.
  const auto numbers = fourier_numbers(o, cases);
  const auto &rx = numbers.first, &ry = numbers.second;
  AT_DISPATCH_FLOATING_TYPES(field.scalar_type(), "heat_plate", [&] {
    const auto* x = rx.data_ptr<scalar_t>();
    const auto* y = ry.data_ptr<scalar_t>();
    auto* data = field.data_ptr<scalar_t>();
    at::parallel_for(0, cases.size(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        solve_case(o.frames, rows, cols, x[n], y[n],
                   data + n * o.frames * rows * cols);
      }
    });
  });
  return field;
}

torch::Tensor solve_with_tensors(const HeatPlateOptions& o,
                                 const PlateCases& cases) {
  check_stable(o, cases);
  const int64_t rows = cases.first.size(1), cols = cases.first.size(2);
  auto field =
      torch::empty({cases.size(), o.frames, rows, cols}, cases.first.options());
  field.select(1, 0).copy_(cases.first);
  auto [rx, ry] = fourier_numbers(o, cases);
  rx = rx.view({-1, 1, 1});
  ry = ry.view({-1, 1, 1});
  for (int64_t n = 0; n + 1 < o.frames; ++n) {
    const auto t = field.select(1, n);
    auto next = field.select(1, n + 1);
    next.copy_(t);
    const auto [lap_x, lap_y] = second_differences(t);
    next.index({Slice(), Slice(1, -1), Slice(1, -1)})
        .add_(rx * lap_x + ry * lap_y);
  }
  return field;
}

torch::Tensor fit_alpha(const HeatPlateOptions& o, const torch::Tensor& frames,
                        const torch::Tensor& dt) {
  const auto t = frames.to(torch::kFloat64);
  const auto [xx, yy] = second_differences(t.slice(1, 0, -1));
  const auto laplacian = xx / (o.dx() * o.dx()) + yy / (o.dy() * o.dy());
  const auto change =
      (t.slice(1, 1) - t.slice(1, 0, -1)).slice(2, 1, -1).slice(3, 1, -1);
  const auto over_nodes = [](const torch::Tensor& x) {
    return x.sum({1, 2, 3});
  };
  // A plate at rest says nothing of its diffusivity, and any will do.
  const auto step = over_nodes(change * laplacian) /
                    over_nodes(laplacian.square())
                        .clamp_min(std::numeric_limits<double>::min());
  const double largest = o.largest_step(1);
  return (step.clamp(1e-9 * largest, largest) / dt).to(dt.scalar_type());
}

torch::Tensor steady_state(const HeatPlateOptions& o,
                           const torch::Tensor& frames) {
  const int64_t rows = frames.size(1), cols = frames.size(2);
  auto field = frames.to(torch::kCPU, torch::kFloat64).clone();
  auto inner = field.index({Slice(), Slice(1, -1), Slice(1, -1)});
  // The edges as sources of the first and last interior nodes.
  auto source = torch::zeros_like(inner);
  const double wx = 1 / (o.dx() * o.dx()), wy = 1 / (o.dy() * o.dy());
  source.select(2, 0) += wx * field.select(2, 0).slice(1, 1, -1);
  source.select(2, -1) += wx * field.select(2, -1).slice(1, 1, -1);
  source.select(1, 0) += wy * field.select(1, 0).slice(1, 1, -1);
  source.select(1, -1) += wy * field.select(1, -1).slice(1, 1, -1);
  const auto [sy, lambda_y] = sine_modes(rows - 2, o.dy());
  const auto [sx, lambda_x] = sine_modes(cols - 2, o.dx());
  const auto spectrum = torch::matmul(torch::matmul(sy, source), sx) /
                        (lambda_y.unsqueeze(1) + lambda_x.unsqueeze(0));
  inner.copy_(torch::matmul(torch::matmul(sy, spectrum), sx));
  return field.to(frames.options());
}

}  // namespace propagator::physics
