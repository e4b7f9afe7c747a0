#include "jet_checks.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <algorithm>

namespace propagator::testing {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using torch::Tensor;

double factorial(int64_t k) {
  double product = 1;
  for (int64_t j = 2; j <= k; ++j) product *= static_cast<double>(j);
  return product;
}

Tensor or_zeros(const Tensor& gradient, const Tensor& like) {
  return gradient.defined() ? gradient : torch::zeros_like(like);
}

// To that order along every direction.
JetLayout even_layout(const MovingPoints& at, int64_t order) {
  return JetLayout(
      std::vector<int64_t>(static_cast<size_t>(at.directions.size(0)), order));
}

// ∂ᵏu/∂dᵏ, k = 1 … order, by nested reverse mode: (N, T, F) each. A window
// has an s of its own, so one field at one token of all windows at a time.
std::vector<Tensor> nested(const JetMap& f, const MovingPoints& at,
                           int64_t direction, int64_t order) {
  auto s = torch::zeros({at.points.size(0)}, torch::kFloat64)
               .set_requires_grad(true);
  const auto all = f(Jet::constant(at.points + s.view({-1, 1, 1}) *
                                                   at.directions[direction]))
                       .value();
  std::vector<std::vector<Tensor>> entries(static_cast<size_t>(order));
  const auto flat = all.flatten(1);
  for (int64_t n = 0; n < flat.size(1); ++n) {
    auto u = flat.select(1, n);
    for (auto& entry : entries) {
      // What no longer depends on s has no graph to go back through.
      u = u.requires_grad()
              ? or_zeros(torch::autograd::grad({u.sum()}, {s}, {}, true, true,
                                               true)[0],
                         s)
              : torch::zeros_like(s);
      entry.push_back(u);
    }
  }
  std::vector<Tensor> derivatives;
  for (const auto& entry : entries) {
    derivatives.push_back(torch::stack(entry, 1).view(all.sizes()));
  }
  return derivatives;
}

}  // namespace

::testing::AssertionResult derivatives_are_nested(const JetMap& f,
                                                  const MovingPoints& at,
                                                  int64_t order,
                                                  Tolerance tolerance) {
  const auto layout = even_layout(at, order);
  const auto u = f(Jet::moving(at.points, at.directions, layout));
  const auto value =
      near(u.value(), f(Jet::constant(at.points)).value(), kFloat64);
  if (!value) return value;
  for (int64_t d = 0; d < at.directions.size(0); ++d) {
    const auto expected = nested(f, at, d, order);
    for (int64_t k = 1; k <= order; ++k) {
      auto same = near(u.rows()[layout.row(d, k)] * factorial(k),
                       expected[static_cast<size_t>(k - 1)], tolerance);
      if (!same) return same << ", direction " << d << ", order " << k;
    }
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult derivatives_are_differences(const JetMap& f,
                                                       const MovingPoints& at,
                                                       int64_t order,
                                                       Tolerance tolerance) {
  constexpr double kStep = 1e-6;
  const torch::NoGradGuard no_grad;
  const auto layout = even_layout(at, order);
  const auto rows = [&](const Tensor& points) {
    return f(Jet::moving(points, at.directions, layout)).rows();
  };
  const auto here = rows(at.points);
  for (int64_t d = 0; d < at.directions.size(0); ++d) {
    const auto above = rows(at.points + at.directions[d] * kStep);
    const auto below = rows(at.points - at.directions[d] * kStep);
    for (int64_t k = 1; k <= order; ++k) {
      const int64_t lower = k == 1 ? 0 : layout.row(d, k - 1);
      const auto difference =
          (above[lower] - below[lower]) / (2 * kStep * static_cast<double>(k));
      auto same = near(here[layout.row(d, k)], difference, tolerance);
      if (!same) return same << ", direction " << d << ", order " << k;
    }
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult parameter_gradients_are_nested(
    const torch::nn::Module& module, const JetMap& f, const MovingPoints& at,
    int64_t order, Tolerance tolerance) {
  std::vector<Tensor> trained;
  std::vector<std::string> names;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    trained.push_back(item.value());
    names.push_back(item.key());
  }
  const auto gradients = [&](const Tensor& derivative) {
    return torch::autograd::grad({derivative.square().sum()}, trained, {}, {},
                                 false, true);
  };
  // Other directions go less far, as in most equations.
  std::vector<int64_t> orders(static_cast<size_t>(at.directions.size(0)),
                              std::max<int64_t>(1, order - 1));
  orders.front() = order;
  const JetLayout layout(orders);
  const auto u = f(Jet::moving(at.points, at.directions, layout));
  const auto by_jets =
      gradients(u.rows()[layout.row(0, order)] * factorial(order));
  const auto expected = gradients(nested(f, at, 0, order).back());
  for (size_t n = 0; n < trained.size(); ++n) {
    auto same = near(or_zeros(by_jets[n], trained[n]),
                     or_zeros(expected[n], trained[n]), tolerance);
    if (!same) return same << ", gradient of " << names[n];
  }
  return ::testing::AssertionSuccess();
}

}  // namespace propagator::testing
