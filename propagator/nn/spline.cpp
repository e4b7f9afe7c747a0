#include "propagator/nn/spline.h"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

namespace propagator::nn {
namespace {

using torch::Tensor;

// All but the last, and all but the first `count` along the last dimension.
Tensor without_last(const Tensor& x, int64_t count) {
  return x.narrow(-1, 0, x.size(-1) - count);
}
Tensor without_first(const Tensor& x, int64_t count) {
  return x.narrow(-1, count, x.size(-1) - count);
}

// S of the header for degree q, from the splines of degree q - 1.
Tensor over_spans(const Tensor& lower, const Tensor& knots, int64_t q) {
  return lower / (without_first(knots, q) - without_last(knots, q));
}

}  // namespace

Tensor uniform_knots(int64_t intervals, int64_t degree, double low, double high,
                     const torch::TensorOptions& options) {
  if (intervals < 1 || degree < 0 || !(low < high)) {
    throw std::invalid_argument(fmt::format(
        "[uniform_knots] expected 1 interval or more, a degree of 0 or more "
        "and low < high, got {}, {} and [{}, {}]",
        intervals, degree, low, high));
  }
  // In double and from the middle, so that the ends come out as given.
  const auto steps =
      torch::arange(-degree, intervals + degree + 1, torch::kFloat64) /
      static_cast<double>(intervals);
  return (low * (1 - steps) + high * steps).to(options);
}

autodiff::Jet spline_basis(const autodiff::Jet& x, const Tensor& knots,
                           int64_t degree) {
  if (degree < 0 || knots.dim() == 0 || knots.size(-1) < degree + 2) {
    throw std::invalid_argument(fmt::format(
        "[spline_basis] expected {} knots or more for degree {}, got {}",
        degree + 2, degree, knots.dim() == 0 ? 0 : knots.size(-1)));
  }
  const auto each = x.linear([](const Tensor& rows) {
    return rows.unsqueeze(-1);  // beside every spline
  });
  const auto at = each.value();
  // splines[q]: those of degree q, (…, K - q - 1).
  std::vector<Tensor> splines;
  splines.push_back(torch::logical_and(at >= without_last(knots, 1),
                                       at < without_first(knots, 1))
                        .to(at.scalar_type()));
  for (int64_t q = 1; q <= degree; ++q) {
    const auto s = over_spans(splines.back(), knots, q);
    splines.push_back((at - without_last(knots, q + 1)) * without_last(s, 1) +
                      (without_first(knots, q + 1) - at) * without_first(s, 1));
  }
  std::vector<Tensor> taylor{splines.back()};
  double factorial = 1;
  for (int64_t j = 1; j <= x.layout().order(); ++j) {
    if (j > degree) {
      taylor.push_back(torch::zeros_like(taylor.front()));
      continue;
    }
    auto derivative = splines[static_cast<size_t>(degree - j)];
    double factor = 1;  // p (p-1) … over j!
    for (int64_t q = degree - j + 1; q <= degree; ++q) {
      const auto s = over_spans(derivative, knots, q);
      derivative = without_last(s, 1) - without_first(s, 1);
      factor *= static_cast<double>(q);
    }
    factorial *= static_cast<double>(j);
    taylor.push_back(derivative * (factor / factorial));
  }
  return autodiff::compose(each, taylor);
}

}  // namespace propagator::nn
