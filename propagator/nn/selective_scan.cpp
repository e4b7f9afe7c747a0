#include "propagator/nn/selective_scan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>
#include <vector>

#include "propagator/kernels/jet/jet_scan.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using torch::Tensor;

void expect_shape(const char* name, const Tensor& value,
                  std::vector<int64_t> expected) {
  if (value.sizes().vec() == expected) return;
  throw std::invalid_argument(fmt::format(
      "[selective_scan] expected {} as ({}), got ({})", name,
      fmt::join(expected, ", "), fmt::join(value.sizes().vec(), ", ")));
}

Jet unsqueezed(const Jet& x, int64_t dim) {
  return x.linear([dim](const Tensor& rows) { return rows.unsqueeze(dim); });
}

void expect_shapes(const Jet& x, const Jet& delta, const Tensor& a,
                   const Jet& b, const Jet& c, const Tensor& d) {
  const auto shape = x.value().sizes().vec();
  if (shape.size() != 3 || a.dim() != 2) {
    throw std::invalid_argument(fmt::format(
        "[selective_scan] expected x (N, T, I) and A (I, S), got ({}) and ({})",
        fmt::join(shape, ", "), fmt::join(a.sizes().vec(), ", ")));
  }
  const int64_t batch = shape[0], tokens = shape[1], inner = shape[2];
  const int64_t states = a.size(1);
  expect_shape("delta", delta.value(), shape);
  expect_shape("A", a, {inner, states});
  expect_shape("B", b.value(), {batch, tokens, states});
  expect_shape("C", c.value(), {batch, tokens, states});
  expect_shape("D", d, {inner});
}

bool has_kernel(const Jet& x, const Jet& delta, const Jet& b, const Jet& c) {
  const auto& layout = x.layout();
  return allows_kernels(x) && delta.layout() == layout &&
         b.layout() == layout && c.layout() == layout &&
         kernels::has_jet_scan(x.rows(), layout.orders());
}

}  // namespace

Jet selective_scan(const Jet& x, const Jet& delta, const Tensor& a,
                   const Jet& b, const Jet& c, const Tensor& d) {
  expect_shapes(x, delta, a, b, c, d);
  if (!has_kernel(x, delta, b, c)) {
    return selective_scan_reference(x, delta, a, b, c, d);
  }
  return {kernels::jet_scan({x.rows(), delta.rows(), a, b.rows(), c.rows(), d},
                            x.layout().orders()),
          x.layout()};
}

Jet selective_scan_reference(const Jet& x, const Jet& delta, const Tensor& a,
                             const Jet& b, const Jet& c, const Tensor& d) {
  expect_shapes(x, delta, a, b, c, d);
  const int64_t tokens = x.value().size(1);
  // (M; N, T, I, S)
  const auto drive = unsqueezed(delta * x, -1) * unsqueezed(b, -2);
  const auto at = [](const Jet& all, int64_t t) {
    return narrow(all, -3, t, 1);
  };
  std::vector<Jet> states_at{at(drive, 0)};
  if (tokens > 1) {
    // The first state starts from nothing, so nothing decays into it.
    const auto later = narrow(delta, -2, 1, tokens - 1);
    const auto decay = autodiff::exp(unsqueezed(later, -1) * a);
    for (int64_t t = 1; t < tokens; ++t) {
      states_at.push_back(at(decay, t - 1) * states_at.back() + at(drive, t));
    }
  }
  const auto h = autodiff::cat(states_at, -3);
  return autodiff::sum(h * unsqueezed(c, -2), -1, /*keepdim=*/false) + x * d;
}

}  // namespace propagator::nn
