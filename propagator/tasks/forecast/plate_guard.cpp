#include "propagator/tasks/forecast/plate_guard.h"

#include <fmt/format.h>
#include <torch/utils.h>

namespace propagator::tasks {
namespace {

using torch::Tensor;

// What rounding to float32 may do to the ends of a range.
constexpr double kRounding = 1e-6;

std::string beyond(const char* name, const Tensor& values, double low,
                   double high) {
  const double least = values.min().item<double>();
  const double most = values.max().item<double>();
  const double slack = kRounding * (high - low) + kRounding * high;
  if (least >= low - slack && most <= high + slack) return "";
  return fmt::format("{} from {:.4g} to {:.4g}, trained from {:.4g} to {:.4g}",
                     name, least, most, low, high);
}

}  // namespace

Guard PlateGuard::guard(const Tensor& first, const Tensor& alpha,
                        const Tensor& answer) const {
  const torch::NoGradGuard no_grad;
  const int64_t seen = first.size(1);
  return {outside(first, alpha), residual(alpha, answer.slice(1, seen - 1))};
}

std::string PlateGuard::outside(const Tensor& first,
                                const Tensor& alpha) const {
  auto text = beyond("fields", first, 0, 1);
  if (!alpha.defined()) return text;
  const auto more = beyond("alpha", alpha, plate_.alpha_min, plate_.alpha_max);
  if (!text.empty() && !more.empty()) text += "; ";
  return text + more;
}

std::optional<double> PlateGuard::residual(const Tensor& alpha,
                                           const Tensor& frames) const {
  // With a step that suits each case, the diffusivity does nothing.
  const bool needs_alpha = plate_.time_step == physics::TimeStep::kFixed;
  if (frames.size(1) < 2 || (needs_alpha && !alpha.defined())) {
    return std::nullopt;
  }
  const int64_t cases = frames.size(0), steps = frames.size(1) - 1;
  const auto given =
      needs_alpha ? alpha.to(torch::kCPU, torch::kFloat64)
                  : torch::full({cases}, plate_.alpha_min, torch::kFloat64);
  auto dt = torch::empty_like(given);
  for (int64_t n = 0; n < cases; ++n) {
    const double each = given[n].item<double>();
    if (!plate_.is_stable(each, plate_.step(each))) return std::nullopt;
    dt[n] = plate_.step(each);
  }
  const auto exact = frames.to(torch::kFloat64);
  const auto before = exact.slice(1, 0, -1).flatten(0, 1);
  const auto after = exact.slice(1, 1).flatten(0, 1);
  auto one_step = plate_;
  one_step.frames = 2;
  const auto simulated =
      physics::solve(one_step, {before, given.repeat_interleave(steps),
                                dt.repeat_interleave(steps)})
          .select(1, 1);
  const double change = (simulated - before).norm().item<double>();
  const double wrong = (after - simulated).norm().item<double>();
  return wrong == 0 ? 0 : wrong / change;
}

}  // namespace propagator::tasks
