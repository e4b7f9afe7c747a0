#include "propagator/physics/fields/etdrk4.h"

namespace propagator::physics {
namespace {

constexpr int64_t kTerms = 20;  // of a Taylor series at |z| <= 1

double factorial(int64_t n) { return n < 2 ? 1 : n * factorial(n - 1); }

}  // namespace

torch::Tensor phi(int64_t n, const torch::Tensor& z) {
  // Near 0 the series Σ z^k / (k + n)!, by Horner's rule.
  const auto small = torch::where(z.abs() <= 1, z, torch::zeros_like(z));
  auto series = torch::zeros_like(z);
  for (int64_t k = kTerms; k >= 0; --k) {
    series = series * small + 1 / factorial(k + n);
  }
  const auto large = torch::where(z.abs() <= 1, torch::ones_like(z), z);
  auto value = torch::expm1(large) / large;
  for (int64_t k = 1; k < n; ++k) value = (value - 1 / factorial(k)) / large;
  return torch::where(z.abs() <= 1, series, value);
}

Etdrk4::Etdrk4(const torch::Tensor& linear, double step,
               torch::ScalarType type) {
  const auto z = linear.to(torch::kFloat64) * step;
  const auto p1 = phi(1, z), p2 = phi(2, z), p3 = phi(3, z);
  const auto weight = [&](const torch::Tensor& w) { return w.to(type); };
  whole_ = weight(torch::exp(z));
  half_ = weight(torch::exp(z / 2));
  q_ = weight(step / 2 * phi(1, z / 2));
  f1_ = weight(step * (p1 - 3 * p2 + 4 * p3));
  f2_ = weight(2 * step * (p2 - 2 * p3));
  f3_ = weight(step * (4 * p3 - p2));
}

torch::Tensor Etdrk4::step(const torch::Tensor& v, const Nonlinear& n) const {
  const auto at_v = n(v);
  const auto decayed = half_ * v;
  const auto a = decayed + q_ * at_v;
  const auto at_a = n(a);
  const auto at_b = n(decayed + q_ * at_a);
  const auto c = half_ * a + q_ * (2 * at_b - at_v);
  return whole_ * v + f1_ * at_v + f2_ * (at_a + at_b) + f3_ * n(c);
}

}  // namespace propagator::physics
