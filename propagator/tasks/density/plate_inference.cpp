#include "propagator/tasks/density/plate_inference.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/tasks/density/inference_maths.h"

namespace propagator::tasks {

using torch::Tensor;

namespace {

// The step of the simulator as a share of the largest stable one.
constexpr double kStep = 0.5;
constexpr int64_t kMaxSteps = 100'000;
constexpr int64_t kMaxValues = 4'000'000;  // of histories in memory at once
// Diffusivities whose frames span all of them, and how much of a frame may be
// left out, in units of the noise.
constexpr int64_t kSpanning = 40;
constexpr double kLeftOut = 1e-3;
// The grid of diffusivities: pairs of cells in the narrowest posterior's
// standard deviation, and cells of all of it, even numbers.
constexpr double kPairsPerWidth = 4;
constexpr int64_t kLeastCells = 256, kMostCells = 20000;
constexpr int64_t kRowsAtOnce = 1000;
// How far estimates keep off the edges of the prior.
constexpr double kEstimateOffEdge = 0.01;

UniformPrior prior_of(const PlateInferenceOptions& o) {
  return UniformPrior(
      {{o.alpha_min, o.alpha_max, "inference.plate.alpha_max"},
       {o.initial_min, o.initial_max, "inference.plate.initial_max"}});
}

int64_t steps_of(const PlateInferenceOptions& o,
                 const physics::HeatPlateOptions& plate) {
  const double steps =
      std::ceil(o.interval / (kStep * plate.largest_step(o.alpha_max)) - 1e-9);
  const auto nodes = static_cast<double>(o.rows * o.cols);
  if (steps * static_cast<double>(o.frames) > kMaxSteps ||
      steps * static_cast<double>(o.frames) * nodes > kMaxValues) {
    throw ConfigError(
        "inference.plate.interval",
        fmt::format("{} frames on {} x {} nodes so far apart take too many "
                    "steps of the simulator, {:.3g}",
                    o.frames, o.rows, o.cols,
                    steps * static_cast<double>(o.frames)),
        "set a shorter interval, fewer nodes or a smaller alpha_max");
  }
  return std::max<int64_t>(1, std::lround(steps));
}

// log(Φ(high) - Φ(low)), also where both are in the same tail.
Tensor log_normal_between(const Tensor& low, const Tensor& high) {
  const auto upper = low > 0;
  const auto a = torch::where(upper, -high, low);
  const auto b = torch::where(upper, -low, high);
  const auto at_b = torch::special_log_ndtr(b);
  return at_b + torch::log1p(-torch::exp(torch::special_log_ndtr(a) - at_b));
}

// A and B at diffusivities (G), (G, readings) each.
std::pair<Tensor, Tensor> lines_at(const PlateInference& inference,
                                   const Tensor& alphas) {
  const auto at = [&](double initial) {
    return inference.frames_of(
        torch::stack({alphas, torch::full_like(alphas, initial)}, 1));
  };
  const auto a = at(0);
  return {a, at(1) - a};
}

}  // namespace

void PlateInferenceOptions::describe(config::Schema& s) {
  const auto count = [&](const char* name, int64_t& value, double least,
                         double most, const char* help) {
    s.field(name, value,
            {.help = help, .min = least, .max = most, .later = true});
  };
  const auto number = [&](const char* name, double& value, const char* unit,
                          double least, double most, const char* help) {
    s.field(
        name, value,
        {.help = help, .unit = unit, .min = least, .max = most, .later = true});
  };
  count("rows", rows, 4, 64, "nodes from top to bottom of a plate 1 m high");
  count("cols", cols, 4, 64, "nodes from left to right of a plate 1 m wide");
  count("frames", frames, 1, 100, "frames that are observed");
  number("interval", interval, "s", 1e-6, 1e6,
         "time from the start to the first frame, and between frames");
  number("noise", noise, "", 1e-6, 1e6,
         "standard deviation of the noise of each node's temperature");
  number("alpha_min", alpha_min, "m2/s", 1e-9, 1e3,
         "smallest diffusivity of the prior");
  number("alpha_max", alpha_max, "m2/s", 1e-9, 1e3,
         "largest diffusivity of the prior");
  number("initial_min", initial_min, "", -1e6, 1e6,
         "lowest temperature at the start, of the prior");
  number("initial_max", initial_max, "", -1e6, 1e6,
         "highest temperature at the start, of the prior");
  number("left", left, "", -1e6, 1e6, "temperature of the left edge, known");
  number("right", right, "", -1e6, 1e6, "temperature of the right edge, known");
  number("top", top, "", -1e6, 1e6,
         "temperature of the top edge and its corners, known");
  number("bottom", bottom, "", -1e6, 1e6,
         "temperature of the bottom edge and its corners, known");
}

PlateInference::PlateInference(const PlateInferenceOptions& options)
    : options_(options), prior_(prior_of(options)) {
  plate_ = {.rows = options.rows,
            .cols = options.cols,
            .time_step = physics::TimeStep::kFixed,
            .alpha_min = options.alpha_min,
            .alpha_max = options.alpha_max};
  steps_ = steps_of(options, plate_);
  plate_.dt = options.interval / static_cast<double>(steps_);
  plate_.frames = steps_ * options.frames + 1;
  find_basis();
  tabulate();
}

std::vector<std::string> PlateInference::unknowns() const {
  return {"alpha", "initial"};
}

std::vector<std::string> PlateInference::observed() const {
  std::vector<std::string> names;
  for (int64_t f = 1; f <= options_.frames; ++f) {
    for (int64_t j = 1; j + 1 < options_.rows; ++j) {
      for (int64_t i = 1; i + 1 < options_.cols; ++i) {
        names.push_back(fmt::format("frame_{}_{}_{}", f, j, i));
      }
    }
  }
  return names;
}

double PlateInference::log_units() const {
  return prior_.log_density() -
         static_cast<double>(readings()) *
             std::log(options_.noise * std::sqrt(2 * std::numbers::pi));
}

int64_t PlateInference::readings() const {
  return options_.frames * (options_.rows - 2) * (options_.cols - 2);
}

std::string PlateInference::describe() const {
  return fmt::format(
      "diffusivity (m2/s) and initial temperature of a plate given {} frames "
      "of {} x {} inner nodes with noise of {}, of which a network sees {} "
      "numbers",
      options_.frames, options_.rows - 2, options_.cols - 2, options_.noise,
      summary_numbers());
}

Tensor PlateInference::frames_of(const Tensor& unknown) const {
  const int64_t count = unknown.size(0);
  const int64_t history = plate_.frames * options_.rows * options_.cols;
  const int64_t at_once = std::max<int64_t>(1, kMaxValues / history);
  std::vector<Tensor> parts;
  for (int64_t begin = 0; begin < count; begin += at_once) {
    const auto part = unknown.slice(0, begin, begin + at_once);
    const int64_t rows = part.size(0);
    auto first = part.select(1, 1)
                     .view({rows, 1, 1})
                     .repeat({1, options_.rows, options_.cols});
    first.select(2, 0).fill_(options_.left);
    first.select(2, -1).fill_(options_.right);
    first.select(1, 0).fill_(options_.top);
    first.select(1, -1).fill_(options_.bottom);
    const auto all = physics::solve(
        plate_, {first, part.select(1, 0).contiguous(),
                 torch::full({rows}, plate_.dt, torch::kFloat64)});
    parts.push_back(all.slice(1, steps_, {}, steps_)
                        .slice(2, 1, -1)
                        .slice(3, 1, -1)
                        .reshape({rows, readings()}));
  }
  return torch::cat(parts);
}

void PlateInference::find_basis() {
  // Chebyshev points, denser at the edges, where a span is poorest.
  const auto angle = (torch::arange(kSpanning, torch::kFloat64) + 0.5) *
                     (std::numbers::pi / static_cast<double>(kSpanning));
  const double middle = (options_.alpha_min + options_.alpha_max) / 2;
  const double half = (options_.alpha_max - options_.alpha_min) / 2;
  const auto [a, b] = lines_at(*this, middle - half * torch::cos(angle));
  const auto frames =
      torch::cat({a + options_.initial_min * b, a + options_.initial_max * b});
  const auto vt = std::get<2>(torch::linalg_svd(frames, false));
  const auto along = torch::matmul(frames, vt.t());  // (2 kSpanning, S)
  // What each number of components leaves of the worst frame.
  const auto left = (along.square().sum(1, true) - along.square().cumsum(1))
                        .clamp_min(0)
                        .amax(0)
                        .sqrt();
  const auto few = (left > kLeftOut * options_.noise).sum().item<int64_t>();
  const int64_t kept = std::min(few + 1, vt.size(0));
  auto basis = vt.narrow(0, 0, kept).clone();
  // A component has no sign of its own: its first large number is positive.
  for (int64_t n = 0; n < kept; ++n) {
    auto row = basis[n];
    const auto size = row.abs();
    const auto first = (size > 0.5 * size.max()).nonzero()[0][0];
    if (row[first.item<int64_t>()].item<double>() < 0) row.neg_();
  }
  basis_ = basis.t().contiguous();
}

void PlateInference::tabulate() {
  const auto grid = [&](int64_t cells) {
    return torch::linspace(options_.alpha_min, options_.alpha_max, cells + 1,
                           torch::kFloat64);
  };
  const auto in_basis = [&](const Tensor& alphas) {
    const auto [a, b] = lines_at(*this, alphas);
    return std::pair(torch::matmul(a, basis_), torch::matmul(b, basis_));
  };
  const auto [a, b] = in_basis(grid(kLeastCells));
  // All cells of the range, if each frame changed as fast as the fastest.
  double fastest = 0;
  for (const double initial : {options_.initial_min, options_.initial_max}) {
    const auto frames = a + initial * b;
    fastest = std::max(fastest, (frames.slice(0, 1) - frames.slice(0, 0, -1))
                                    .norm(2, {1})
                                    .max()
                                    .item<double>());
  }
  const double widths =
      fastest * static_cast<double>(kLeastCells) / options_.noise;
  const auto pairs_of_cells =
      static_cast<int64_t>(std::min(1e9, std::ceil(kPairsPerWidth * widths)));
  const auto cells = std::clamp(2 * pairs_of_cells, kLeastCells, kMostCells);
  alphas_ = grid(cells);
  std::tie(a_, b_) = in_basis(alphas_);
}

Pairs PlateInference::draw(int64_t seed, int64_t begin, int64_t count) const {
  const RandomStream stream(seed, "data/plate");
  auto unknown = torch::empty({count, 2}, torch::kFloat64);
  for (int64_t n = 0; n < count; ++n) {
    unknown[n].copy_(
        torch::tensor(prior_.draw(stream, begin + n), torch::kFloat64));
  }
  // Two numbers of each row are the unknowns.
  const auto noise = normal_rows(stream, begin, count, 2, readings());
  return {unknown, frames_of(unknown) + options_.noise * noise};
}

Tensor PlateInference::summary(const Tensor& observed) const {
  return torch::matmul(observed, basis_);
}

PlateInference::Parabolas PlateInference::parabolas(
    const Tensor& summary) const {
  const double variance = options_.noise * options_.noise;
  const auto with = [&](const Tensor& table) {
    return torch::matmul(summary, table.t());
  };
  // Nothing is left of T0 in late frames: a curvature all the same.
  const double width = options_.initial_max - options_.initial_min;
  return {
      .curvature =
          (b_.square().sum(1) / variance).clamp_min(1e-12 / (width * width)),
      .slope = (with(b_) - (a_ * b_).sum(1)) / variance,
      .rest =
          -(summary.square().sum(1, true) - 2 * with(a_) + a_.square().sum(1)) /
          (2 * variance)};
}

Tensor PlateInference::estimate(const Tensor& observed) const {
  std::vector<Tensor> parts;
  const int64_t last = alphas_.size(0) - 1;
  for (int64_t n = 0; n < observed.size(0); n += kRowsAtOnce) {
    const auto [curvature, slope, rest] =
        parabolas(summary(observed.slice(0, n, n + kRowsAtOnce)));
    const auto initial =
        (slope / curvature).clamp(options_.initial_min, options_.initial_max);
    const auto height =
        rest + slope * initial - curvature * initial.square() / 2;
    const auto best = height.argmax(1, true);
    const auto at = [&](const Tensor& values, const Tensor& index) {
      return values.gather(1, index.clamp(0, last)).squeeze(1);
    };
    auto off =
        summit(at(height, best - 1), at(height, best), at(height, best + 1));
    off = torch::where((best > 0).squeeze(1) & (best < last).squeeze(1), off,
                       torch::zeros_like(off));
    const auto next = torch::where((off < 0).unsqueeze(1), best - 1, best + 1);
    const auto alpha = alphas_.index_select(0, best.squeeze(1)) +
                       off * (alphas_[1] - alphas_[0]);
    parts.push_back(torch::stack(
        {alpha, torch::lerp(at(initial, best), at(initial, next), off.abs())},
        1));
  }
  return prior_.confine(torch::cat(parts), kEstimateOffEdge);
}

Tensor PlateInference::log_joint(const Tensor& unknown,
                                 const Tensor& observed) const {
  const auto inside = prior_.inside(unknown);
  std::vector<Tensor> parts;
  for (int64_t n = 0; n < unknown.size(0); n += kRowsAtOnce) {
    const auto off =
        observed.slice(0, n, n + kRowsAtOnce) -
        frames_of(prior_.confine(unknown.slice(0, n, n + kRowsAtOnce), 0));
    parts.push_back(off.square().sum(1));
  }
  return (log_units() -
          torch::cat(parts) / (2 * options_.noise * options_.noise))
      .masked_fill(~inside, -std::numeric_limits<double>::infinity());
}

std::optional<Tensor> PlateInference::log_evidence(
    const Tensor& observed) const {
  const double variance = options_.noise * options_.noise;
  const auto log_weights = torch::log(simpson_weights(alphas_));
  std::vector<Tensor> parts;
  for (int64_t n = 0; n < observed.size(0); n += kRowsAtOnce) {
    const auto rows = observed.slice(0, n, n + kRowsAtOnce);
    const auto seen = summary(rows);
    const auto [curvature, slope, rest] = parabolas(seen);
    const auto mean = slope / curvature;
    const auto root = curvature.sqrt();
    const auto over_initial =
        rest + slope * mean / 2 + 0.5 * std::log(2 * std::numbers::pi) -
        torch::log(root) +
        log_normal_between((options_.initial_min - mean) * root,
                           (options_.initial_max - mean) * root);
    const auto beyond = rows.square().sum(1) - seen.square().sum(1);
    parts.push_back(torch::logsumexp(over_initial + log_weights, 1) -
                    beyond / (2 * variance));
  }
  return torch::cat(parts) + log_units();
}

}  // namespace propagator::tasks
