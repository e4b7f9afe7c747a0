#include "propagator/pde/reference/spectral_solver.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <optional>

#include "propagator/core/error.h"
#include "propagator/pde/reference/spectral_system.h"

namespace propagator::pde {
namespace {

using torch::Tensor;

double largest(const Tensor& x) { return x.abs().max().item<double>(); }

// A correction below this share of the solution that no longer falls is
// rounding, not failure.
constexpr double kRounding = 1e-7;
// A matrix is kept as long as each correction is this much smaller than the
// one before.
constexpr double kKeep = 0.1;
constexpr double kLeastStep = 1e-4;
// Of one element: more take gigabytes.
constexpr int64_t kMostUnknowns = 4000;

// Newton's method from u on. A matrix serves as long as corrections fall fast,
// also from slab to slab. A step is halved until the correction after it, with
// the same matrix, is smaller: a test that rows' units do not change.
Tensor newton(SpectralSystem& system, Tensor u, const SpectralOptions& o) {
  bool fresh = !system.factored();
  if (fresh) system.factor(u);
  auto step = system.correction(u);
  for (int64_t i = 0; i < o.max_newton; ++i) {
    const double size = largest(step), scale = largest(u + step);
    if (size <= o.tolerance * scale) return u + step;
    Tensor trial, next;
    bool falls = false;
    double length = 2;
    do {
      length /= 2;
      trial = u + length * step;
      next = system.correction(trial);
      falls = largest(next) <= (1 - length / 2) * size;
    } while (!falls && fresh && length > kLeastStep);
    if (!falls && fresh) {
      if (size <= kRounding * scale) return u + step;
      break;
    }
    if (falls) u = trial;
    fresh = !falls || length < 1 || largest(next) > kKeep * size;
    if (fresh) {
      system.factor(u);
      next = system.correction(u);
    }
    step = next;
  }
  throw NumericalError(
      fmt::format("collocation: Newton's method does not converge; its last "
                  "correction is {:.2g} where the solution is {:.2g}",
                  largest(step), largest(u)),
      "more slabs, elements or points may help");
}

void check(const SpectralOptions& o, const SpectralPlan& plan) {
  for (const auto& [name, value] : {std::pair("per_axis", o.per_axis),
                                    {"elements", o.elements},
                                    {"per_slab", o.per_slab},
                                    {"slabs", o.slabs}}) {
    if (value >= 1) continue;
    throw UsageError(fmt::format(
        "collocation: expected {} of 1 or more, got {}", name, value));
  }
  if (o.slabs > 1 && plan.marched < 0) {
    throw UsageError(
        "collocation: no variable has its conditions at its low end alone",
        "use slabs = 1");
  }
  if (o.elements == 1 || plan.divisible()) return;
  throw UsageError(
      "collocation: elements need a variable with as many conditions as the "
      "equations have order",
      "use elements = 1");
}

}  // namespace

SpectralSolution::SpectralSolution(const SpectralPlan& plan, SpectralGrid grid,
                                   Tensor values)
    : domain_(plan.problem.domain),
      grid_(std::move(grid)),
      marched_(plan.marched),
      divided_(plan.divided),
      values_(std::move(values)) {}

Tensor SpectralSolution::at(const Tensor& points) const {
  const auto all = points.detach().to(torch::kCPU, torch::kFloat64);
  if (all.dim() != 2 || all.size(1) != grid_.variables()) {
    throw std::invalid_argument(
        fmt::format("[SpectralSolution] expected points (N, {}), got {} "
                    "dimensions",
                    grid_.variables(), all.dim()));
  }
  constexpr int64_t kPart = 2048;
  std::vector<Tensor> parts;
  for (const auto& part : all.split(kPart)) {
    std::vector<Tensor> local;  // in [-1, 1]
    auto piece = torch::zeros({part.size(0)}, torch::kInt64);
    auto slab = piece;
    for (int64_t x = 0; x < grid_.variables(); ++x) {
      const int64_t count = x == marched_   ? values_.size(0)
                            : x == divided_ ? values_.size(1)
                                            : 1;
      const auto place =
          (part.select(1, x) - domain_[static_cast<size_t>(x)].low) /
          grid_.axis(x).length;
      const auto index = place.floor().clamp(0, count - 1);
      local.push_back(2 * (place - index) - 1);
      if (x == marched_) slab = index.to(torch::kInt64);
      if (x == divided_) piece = index.to(torch::kInt64);
    }
    const auto own = values_.index({slab, piece});  // (N, m)
    std::vector<Tensor> fields;
    for (int64_t f = 0; f < grid_.fields(); ++f) {
      auto field = grid_.field(own, f);
      for (int64_t x = grid_.variables(); x-- > 0;) {
        const auto weights =
            grid_.matrix(f, x, 0, local[static_cast<size_t>(x)]);  // (N, n)
        std::vector<int64_t> shape(static_cast<size_t>(field.dim()), 1);
        shape.front() = weights.size(0);
        shape.back() = weights.size(1);
        field = (field * weights.view(shape)).sum(-1);
      }
      fields.push_back(field);
    }
    parts.push_back(torch::stack(fields, 1));
  }
  return torch::cat(parts);
}

SpectralSolution solve_spectrally(const pde::Problem& problem,
                                  const SpectralOptions& o) {
  const torch::NoGradGuard no_grad;
  const SpectralPlan plan(problem);
  check(o, plan);
  std::vector<SpectralGrid::Axis> axes;
  for (int64_t x = 0; x < std::ssize(problem.domain); ++x) {
    const auto& [low, high] = problem.domain[static_cast<size_t>(x)];
    const bool marched = x == plan.marched;
    const int64_t pieces = marched             ? o.slabs
                           : x == plan.divided ? o.elements
                                               : 1;
    axes.push_back({marched ? o.per_slab : o.per_axis,
                    (high - low) / static_cast<double>(pieces), marched});
  }
  const SpectralGrid grid(axes, plan.counts);
  if (grid.unknowns() > kMostUnknowns) {
    throw UsageError(
        fmt::format("collocation: {} unknowns in one element, expected at "
                    "most {}",
                    grid.unknowns(), kMostUnknowns),
        "use fewer points");
  }
  SpectralSystem first(plan, grid, o.elements, /*first=*/true);
  std::optional<SpectralSystem> later;
  std::vector<Tensor> slabs;
  for (int64_t slab = 0; slab < o.slabs; ++slab) {
    if (slab == 1) later.emplace(plan, grid, o.elements, /*first=*/false);
    auto& system = slab == 0 ? first : *later;
    system.begin(slab, slab == 0 ? Tensor() : slabs.back());
    slabs.push_back(newton(system, system.guess(), o));
  }
  return {plan, grid, torch::stack(slabs)};
}

}  // namespace propagator::pde
