#include "propagator/tasks/reconstruct/laplace.h"

#include <torch/utils.h>

#include <cmath>
#include <limits>

#include "propagator/core/progress.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// It has settled when so many iterations have raised it by less than this.
constexpr int64_t kQuiet = 20;
constexpr double kLittle = 0.01;

double product_of(const Tensor& a, const Tensor& b) {
  return (a * b).sum().item<double>();
}

// Of the step of a central difference, over the size of a point.
double best_step(const Tensor& at) {
  return std::cbrt(at.scalar_type() == torch::kFloat64
                       ? std::numeric_limits<double>::epsilon()
                       : std::numeric_limits<float>::epsilon());
}

}  // namespace

InverseEntry inverse_hessian_entry(
    const std::function<Tensor(const Tensor&)>& gradient, const Tensor& at,
    int64_t entry, int64_t most_iterations) {
  const double reach = best_step(at) * (1 + at.norm().item<double>());
  const auto curved = [&](const Tensor& direction) {
    const double step = reach / direction.norm().item<double>();
    return (gradient(at + step * direction) - gradient(at - step * direction)) /
           (2 * step);
  };
  auto solution = torch::zeros_like(at);
  auto left = torch::zeros_like(at);
  left[entry] = 1;
  auto direction = left.clone();
  double length = 1, quiet_value = 0;
  InverseEntry found;
  Progress progress("interval", most_iterations);
  for (; found.iterations < most_iterations && length > 0; ++found.iterations) {
    const auto product = curved(direction);
    const double curvature = product_of(direction, product);
    if (!(curvature > 0)) break;
    const double step = length / curvature;
    solution += step * direction;
    left -= step * product;
    const double next = product_of(left, left);
    direction = left + (next / length) * direction;
    length = next;
    found.value = solution[entry].item<double>();
    progress.update(found.iterations);
    if ((found.iterations + 1) % kQuiet != 0) continue;
    if (found.value - quiet_value < kLittle * found.value) {
      found.settled = true;
      break;
    }
    quiet_value = found.value;
  }
  found.settled = found.settled || length == 0;
  return found;
}

}  // namespace propagator::tasks
