#include "propagator/nn/positional_encoding.h"

#include <fmt/format.h>

#include <cmath>

#include "propagator/core/error.h"

namespace propagator::nn {
namespace {

void expect_pairs(int64_t dims) {
  if (dims >= 2 && dims % 2 == 0) return;
  throw UsageError(fmt::format(
      "[sinusoidal_encoding] expected an even number of features, got {}",
      dims));
}

}  // namespace

torch::Tensor sinusoidal_encoding(int64_t n, int64_t dims,
                                  const torch::TensorOptions& options) {
  expect_pairs(dims);
  const int64_t m = dims / 2;
  const auto exponent = torch::linspace(0, -4, m, torch::kFloat64);  // 1 … 1e-4
  const auto frequency = torch::pow(10.0, exponent);
  const auto angle =
      torch::outer(torch::arange(n, torch::kFloat64), frequency);  // (n, m)
  const auto encoding = torch::cat({angle.sin(), angle.cos()}, 1);
  return (encoding / std::sqrt(static_cast<double>(m))).to(options);
}

torch::Tensor interleaved_encoding(int64_t n, int64_t dims,
                                   const torch::TensorOptions& options) {
  expect_pairs(dims);
  const auto exponent = torch::arange(0, dims, 2, torch::kFloat64) *
                        (-4.0 / static_cast<double>(dims));
  const auto angle = torch::outer(torch::arange(n, torch::kFloat64),
                                  torch::pow(10.0, exponent));  // (n, dims/2)
  return torch::stack({angle.sin(), angle.cos()}, -1).flatten(1).to(options);
}

}  // namespace propagator::nn
