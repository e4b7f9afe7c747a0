#include "propagator/nn/radial.h"

#include <torch/utils.h>

#include <cmath>
#include <stdexcept>

namespace propagator::nn {
namespace {

using autodiff::Jet;
using torch::Tensor;

// 0 where s is: what would be infinite there belongs to a power of a distance
// that is 0.
Tensor unless_zero(const Tensor& s, const Tensor& value) {
  return torch::where(s > 0, value, torch::zeros_like(value));
}

// Taylor coefficients by s of a power of s.
std::vector<Tensor> power_series(const Tensor& s, double exponent,
                                 int64_t order) {
  std::vector<Tensor> f;
  double binomial = 1;
  for (int64_t j = 0; j <= order; ++j) {
    const auto k = static_cast<double>(j);
    f.push_back(unless_zero(s, torch::pow(s, exponent - k) * binomial));
    binomial *= (exponent - k) / (k + 1);
  }
  return f;
}

// Of s/2 log s: (log s + 1)/2, then 1/(4s), whose derivatives are powers.
std::vector<Tensor> thin_plate_series(const Tensor& s, int64_t order) {
  std::vector<Tensor> f{unless_zero(s, s * torch::log(s) * 0.5)};
  if (order > 0) f.push_back(unless_zero(s, (torch::log(s) + 1) * 0.5));
  double factor = 0.25;  // f''/2 · s
  for (int64_t j = 2; j <= order; ++j) {
    const auto k = static_cast<double>(j);
    f.push_back(unless_zero(s, torch::pow(s, 1 - k) * factor));
    factor *= (1 - k) / (k + 1);
  }
  return f;
}

// With a = √5 and e = exp(-a √s) its derivatives by s are
//   -5/6 (1 + a√s) e,   25/12 e,   -25a/24 e/√s,   25a/48 (s^(-3/2) + a/s) e.
std::vector<Tensor> matern_series(const Tensor& s, int64_t order) {
  const double a = std::sqrt(5.0);
  const auto root = s.sqrt();
  const auto decay = (root * -a).exp();
  std::vector<Tensor> f{(1 + a * root + 5.0 / 3 * s) * decay};
  if (order > 0) f.push_back((1 + a * root) * decay * (-5.0 / 6));
  if (order > 1) f.push_back(decay * (25.0 / 24));
  if (order > 2) f.push_back(unless_zero(s, decay / root * (-25 * a / 144)));
  if (order > 3) {
    f.push_back(unless_zero(
        s, (torch::pow(s, -1.5) + a / s) * decay * (25 * a / 1152)));
  }
  if (order > 4) {
    throw std::invalid_argument(
        "[radial] matern52 has derivatives to order 4 only");
  }
  return f;
}

std::vector<Tensor> series_of(Radial radial, const Tensor& s, int64_t order) {
  switch (radial) {
    case Radial::kSquaredExponential: {
      std::vector<Tensor> f{(s * -0.5).exp()};
      for (int64_t j = 1; j <= order; ++j) {
        f.push_back(f.back() * (-0.5 / static_cast<double>(j)));
      }
      return f;
    }
    case Radial::kMatern52:
      return matern_series(s, order);
    case Radial::kThinPlate:
      return thin_plate_series(s, order);
    case Radial::kCubic:
      return power_series(s, 1.5, order);
  }
  throw std::invalid_argument("[radial] expected a radial function");
}

}  // namespace

int64_t smoothness_of(Radial radial) {
  switch (radial) {
    case Radial::kSquaredExponential:
      return -1;
    case Radial::kMatern52:
      return 4;
    case Radial::kThinPlate:
      return 1;
    case Radial::kCubic:
      return 2;
  }
  return -1;
}

Tensor squared_distances(const Tensor& points, const Tensor& centres) {
  auto s = torch::zeros({points.size(0), centres.size(0)}, points.options());
  for (int64_t a = 0; a < centres.size(1); ++a) {
    s = s + (points.select(1, a).unsqueeze(1) - centres.select(1, a)).square();
  }
  return s;
}

Jet squared_distances(const Jet& points, const Tensor& centres) {
  const auto value = squared_distances(points.value(), centres);
  if (points.is_constant()) return Jet::constant(value);
  // |x|² - 2 x·c in all rows but the first, which |c|² belongs to and which
  // differences keep from being negative.
  const auto own = autodiff::sum(points * points, -1, /*keepdim=*/true);
  const auto moved = own.rows().slice(0, 1) -
                     2 * torch::matmul(points.rows().slice(0, 1), centres.t());
  return {torch::cat({value.unsqueeze(0), moved}), points.layout()};
}

Jet radial_of(Radial radial, const Jet& s) {
  return autodiff::compose(s, series_of(radial, s.value(), s.layout().order()));
}

Tensor radial_of(Radial radial, const Tensor& s) {
  return series_of(radial, s, 0).front();
}

Tensor radial_slope(Radial radial, const Tensor& s) {
  return series_of(radial, s, 1).back();
}

}  // namespace propagator::nn
