#include <algorithm>
#include <cmath>
#include <numbers>

#include "propagator/pde/text/expression_node.h"

// The functions of formulas, by name.

namespace propagator::pde {
namespace {

double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
double step_of(double x) { return (1 + sign_of(x)) / 2; }

// A step: its derivatives are zero, also at 0.
Jet sign(const Jet& x) {
  const auto value = x.value();
  std::vector<torch::Tensor> f{torch::sign(value)};
  for (int64_t j = 1; j <= x.layout().order(); ++j) {
    f.push_back(torch::zeros_like(value));
  }
  return compose(x, f);
}

Jet heaviside(const Jet& x) { return (sign(x) + 1) * 0.5; }

// f(x) of the Taylor coefficients of f', by s^0, s^1, …, around the value.
Jet integrated(const Jet& x, const torch::Tensor& value,
               const std::vector<torch::Tensor>& slope) {
  std::vector<torch::Tensor> f{value};
  for (size_t k = 0; k < slope.size(); ++k) {
    f.push_back(slope[k] / static_cast<double>(k + 1));
  }
  return compose(x, f);
}

// (1 + (x + s)²) f'(x + s) = 1.
Jet atan(const Jet& x) {
  const auto value = x.value();
  const auto first = torch::reciprocal(1 + value * value);
  std::vector<torch::Tensor> slope;
  for (int64_t k = 0; k < x.layout().order(); ++k) {
    auto next = k == 0 ? first : -2 * value * slope.back() * first;
    if (k > 1) next = next - slope[static_cast<size_t>(k - 2)] * first;
    slope.push_back(next);
  }
  return integrated(x, torch::atan(value), slope);
}

// f' = 2/√π exp(-x²), and f'' = -2 x f'.
Jet erf(const Jet& x) {
  const auto value = x.value();
  std::vector<torch::Tensor> slope;
  for (int64_t k = 0; k < x.layout().order(); ++k) {
    if (k == 0) {
      slope.push_back(2 * std::numbers::inv_sqrtpi *
                      torch::exp(-value * value));
      continue;
    }
    auto next = value * slope.back();
    if (k > 1) next = next + slope[static_cast<size_t>(k - 2)];
    slope.push_back(next * (-2.0 / static_cast<double>(k)));
  }
  return integrated(x, torch::erf(value), slope);
}

}  // namespace

const std::array<FunctionEntry, 14>& functions() {
  using F = Function;
  static const std::array<FunctionEntry, 14> all = {{
      {F::kSin, "sin", std::sin, autodiff::sin},
      {F::kCos, "cos", std::cos, autodiff::cos},
      {F::kTan, "tan", std::tan, autodiff::tan},
      {F::kExp, "exp", std::exp, autodiff::exp},
      {F::kLog, "log", std::log, autodiff::log},
      {F::kSqrt, "sqrt", std::sqrt, autodiff::sqrt},
      {F::kTanh, "tanh", std::tanh, autodiff::tanh},
      {F::kSinh, "sinh", std::sinh, autodiff::sinh},
      {F::kCosh, "cosh", std::cosh, autodiff::cosh},
      {F::kAbs, "abs", std::fabs, autodiff::abs},
      {F::kSign, "sign", sign_of, sign},
      {F::kHeaviside, "heaviside", step_of, heaviside},
      {F::kAtan, "atan", std::atan, atan},
      {F::kErf, "erf", std::erf, erf},
  }};
  return all;
}

const FunctionEntry& entry(Function function) {
  return functions().at(static_cast<size_t>(function));
}

const FunctionEntry* find_function(std::string_view name) {
  const auto found = std::ranges::find_if(
      functions(), [name](const auto& known) { return known.name == name; });
  return found == functions().end() ? nullptr : &*found;
}

}  // namespace propagator::pde
