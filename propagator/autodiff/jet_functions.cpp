#include <torch/utils.h>

#include <cmath>
#include <numbers>

#include "propagator/autodiff/jet.h"
#include "propagator/kernels/jet/jet_wavelet.h"

// Functions of a jet, entry by entry, from their Taylor coefficients.

namespace propagator::autodiff {
namespace {

using torch::Tensor;

// The coefficients f_j, j = 0 … order, of y' = rhs(f_0 … f_j) from y = f_0,
// where rhs gives coefficient j of the right side.
template <class RightSide>
std::vector<Tensor> integrate(const Tensor& start, int64_t order,
                              RightSide&& rhs) {
  std::vector<Tensor> f{start};
  for (int64_t j = 0; j < order; ++j) {
    f.push_back(rhs(f, j) / static_cast<double>(j + 1));
  }
  return f;
}

// Coefficient j of f².
Tensor square_at(const std::vector<Tensor>& f, int64_t j) {
  auto sum = f[0] * f[static_cast<size_t>(j)];
  for (int64_t i = 1; i <= j; ++i) {
    sum = sum + f[static_cast<size_t>(i)] * f[static_cast<size_t>(j - i)];
  }
  return sum;
}

// Those of a function whose second derivative is itself or its negative:
// derivative, ±value, ±derivative, value … each over j!.
std::vector<Tensor> alternating(const Tensor& value, const Tensor& derivative,
                                double second, int64_t order) {
  std::vector<Tensor> f{value};
  double factor = 1;
  for (int64_t j = 1; j <= order; ++j) {
    factor *= (j % 2 == 0 ? second : 1) / static_cast<double>(j);
    f.push_back((j % 2 == 0 ? value : derivative) * factor);
  }
  return f;
}

std::vector<Tensor> sigmoid_series(const Tensor& x, int64_t order) {
  return integrate(torch::sigmoid(x), order,
                   [](const std::vector<Tensor>& f, int64_t j) {
                     return f[static_cast<size_t>(j)] - square_at(f, j);
                   });
}

// Coefficients of x · g from those of g, at x.
std::vector<Tensor> times_argument(const Tensor& x,
                                   const std::vector<Tensor>& g) {
  std::vector<Tensor> f{x * g[0]};
  for (size_t j = 1; j < g.size(); ++j) f.push_back(x * g[j] + g[j - 1]);
  return f;
}

// Coefficients of an antiderivative whose value is `start`.
std::vector<Tensor> antiderivative(const Tensor& start,
                                   const std::vector<Tensor>& g,
                                   int64_t order) {
  return integrate(start, order, [&g](const auto&, int64_t j) {
    return g[static_cast<size_t>(j)];
  });
}

}  // namespace

Jet sin(const Jet& x) {
  if (x.is_constant()) return {torch::sin(x.rows()), x.layout()};
  if (allows_kernels(x)) {
    const auto options = x.rows().options();
    return waves(x, torch::ones({1}, options), torch::zeros({1}, options));
  }
  const auto value = x.value();
  return compose(x, alternating(torch::sin(value), torch::cos(value), -1,
                                x.layout().order()));
}

Jet cos(const Jet& x) {
  if (x.is_constant()) return {torch::cos(x.rows()), x.layout()};
  const auto value = x.value();
  return compose(x, alternating(torch::cos(value), -torch::sin(value), -1,
                                x.layout().order()));
}

Jet tan(const Jet& x) {
  return compose(x, integrate(torch::tan(x.value()), x.layout().order(),
                              [](const std::vector<Tensor>& f, int64_t j) {
                                const auto square = square_at(f, j);
                                return j == 0 ? square + 1 : square;
                              }));
}

Jet exp(const Jet& x) {
  return compose(x, integrate(torch::exp(x.value()), x.layout().order(),
                              [](const std::vector<Tensor>& f, int64_t j) {
                                return f[static_cast<size_t>(j)];
                              }));
}

Jet log(const Jet& x) {
  const auto value = x.value();
  std::vector<Tensor> f{torch::log(value)};
  if (x.is_constant()) return compose(x, f);
  auto power = torch::reciprocal(value);
  for (int64_t j = 1; j <= x.layout().order(); ++j) {
    f.push_back(power * ((j % 2 == 1 ? 1.0 : -1.0) / static_cast<double>(j)));
    power = power / value;
  }
  return compose(x, f);
}

Jet sqrt(const Jet& x) { return pow(x, 0.5); }
Jet reciprocal(const Jet& x) { return pow(x, -1); }

Jet tanh(const Jet& x) {
  return compose(x, integrate(torch::tanh(x.value()), x.layout().order(),
                              [](const std::vector<Tensor>& f, int64_t j) {
                                const auto square = square_at(f, j);
                                return j == 0 ? 1 - square : -square;
                              }));
}

Jet sinh(const Jet& x) {
  const auto value = x.value();
  return compose(x, alternating(torch::sinh(value), torch::cosh(value), 1,
                                x.layout().order()));
}

Jet cosh(const Jet& x) {
  const auto value = x.value();
  return compose(x, alternating(torch::cosh(value), torch::sinh(value), 1,
                                x.layout().order()));
}

Jet sigmoid(const Jet& x) {
  return compose(x, sigmoid_series(x.value(), x.layout().order()));
}

Jet silu(const Jet& x) {
  const auto value = x.value();
  return compose(
      x, times_argument(value, sigmoid_series(value, x.layout().order())));
}

Jet softplus(const Jet& x) {
  const auto value = x.value();
  const int64_t order = x.layout().order();
  return compose(x, antiderivative(torch::softplus(value),
                                   sigmoid_series(value, order), order));
}

Jet gelu(const Jet& x) {
  const auto value = x.value();
  const int64_t order = x.layout().order();
  const double norm = 1 / std::sqrt(2 * std::numbers::pi);
  // φ' = -x φ
  const auto density =
      integrate(torch::exp(value.square() * -0.5) * norm, order,
                [&value](const std::vector<Tensor>& f, int64_t j) {
                  const auto at = static_cast<size_t>(j);
                  const auto product = value * f[at];
                  return j == 0 ? -product : -(product + f[at - 1]);
                });
  const auto share = torch::erfc(value * -std::sqrt(0.5)) * 0.5;
  return compose(x,
                 times_argument(value, antiderivative(share, density, order)));
}

Jet abs(const Jet& x) {
  const auto value = x.value();
  std::vector<Tensor> f{torch::abs(value)};
  if (x.layout().order() > 0) f.push_back(torch::sign(value));
  while (static_cast<int64_t>(f.size()) <= x.layout().order()) {
    f.push_back(torch::zeros_like(value));
  }
  return compose(x, f);
}

Jet pow(const Jet& x, double exponent) {
  const auto value = x.value();
  std::vector<Tensor> f{torch::pow(value, exponent)};
  double binomial = exponent;
  for (int64_t j = 1; j <= x.layout().order(); ++j) {
    // A whole power ends: its later coefficients are zero, also at x = 0.
    f.push_back(binomial == 0
                    ? torch::zeros_like(value)
                    : torch::pow(value, exponent - static_cast<double>(j)) *
                          binomial);
    binomial *=
        (exponent - static_cast<double>(j)) / static_cast<double>(j + 1);
  }
  return compose(x, f);
}

Jet waves(const Jet& x, const Tensor& w1, const Tensor& w2) {
  if (allows_kernels(x)) {
    return {kernels::jet_wavelet(x.rows(), w1, w2, x.layout().orders()),
            x.layout()};
  }
  const auto value = x.value();
  const auto s = torch::sin(value), c = torch::cos(value);
  return compose(
      x, alternating(w1 * s + w2 * c, w1 * c - w2 * s, -1, x.layout().order()));
}

}  // namespace propagator::autodiff
