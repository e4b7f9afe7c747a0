#include "propagator/physics/fields/case_draws.h"

#include <cmath>
#include <numbers>

namespace propagator::physics {

torch::Tensor CaseDraws::uniform(int64_t count, double low, double high) const {
  auto values = torch::empty({cases_, count}, torch::kFloat64);
  auto* row = values.data_ptr<double>();
  for (int64_t n = 0; n < cases_; ++n, row += count) {
    stream_.fill(first_ + n, 0, {row, static_cast<size_t>(count)});
  }
  return low + (high - low) * values;
}

torch::Tensor CaseDraws::log_uniform(int64_t count, double low,
                                     double high) const {
  if (low == high) return torch::full({cases_, count}, low, torch::kFloat64);
  return torch::exp(uniform(count, std::log(low), std::log(high)));
}

torch::Tensor CaseDraws::whole(int64_t count, int64_t low, int64_t high) const {
  return torch::floor(
      uniform(count, static_cast<double>(low), static_cast<double>(high + 1)));
}

torch::Tensor CaseDraws::normal(int64_t count) const {
  const int64_t even = count + count % 2;
  auto values = uniform(even, 0, 1);
  auto* all = values.data_ptr<double>();
  for (int64_t n = 0; n < values.numel(); n += 2) {
    const double radius = std::sqrt(-2 * std::log1p(-all[n]));
    const double angle = 2 * std::numbers::pi * all[n + 1];
    all[n] = radius * std::cos(angle);
    all[n + 1] = radius * std::sin(angle);
  }
  return values.narrow(1, 0, count).contiguous();
}

}  // namespace propagator::physics
