#include "propagator/nn/spectral_conv.h"

#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <numbers>
#include <stdexcept>

#include "propagator/kernels/axis_product.h"
#include "propagator/kernels/mode_product.h"

namespace propagator::nn {
namespace {

using torch::Tensor;

// 2π k j / n, (n, K), of nodes j and frequencies k.
Tensor angles(int64_t nodes, const Tensor& frequencies) {
  const auto at = torch::arange(nodes, torch::kFloat64);
  // The remainder first: large products would cost digits.
  const auto turns = torch::outer(at, frequencies).remainder(nodes) / nodes;
  return 2 * std::numbers::pi * turns;
}

// Real numbers along the last axis to frequencies 0 … m-1: (2 m, n), real parts
// first.
Tensor of_real(int64_t nodes, int64_t modes) {
  const auto a = angles(nodes, torch::arange(modes, torch::kFloat64)).t();
  return torch::cat({a.cos(), -a.sin()});
}

// The inverse, (n, 2 m): frequencies above 0 stand for their conjugates too.
Tensor to_real(int64_t nodes, int64_t modes) {
  const auto k = torch::arange(modes, torch::kFloat64);
  const auto weight = torch::where(k > 0, 2, torch::ones_like(k)) / nodes;
  const auto a = angles(nodes, k);
  return torch::cat({a.cos() * weight, -a.sin() * weight}, 1);
}

// Frequencies along another axis, 0 … m-1 and -m … -1.
Tensor both_signs(int64_t modes) {
  return torch::cat({torch::arange(modes, torch::kFloat64),
                     torch::arange(-modes, 0, torch::kFloat64)});
}

// Multiplication of pairs (part, n) with a complex matrix to pairs (n', part),
// or with `parts_last` of pairs (n, part) to pairs (part, n'): of those from
// the first to the second, (2 n', 2 n).
Tensor as_real(const Tensor& c, const Tensor& s, bool parts_last) {
  // (part', n', part, n): the real part of (c + i s)(a + i b) is c a - s b.
  const auto both =
      torch::stack({torch::stack({c, -s}, 1), torch::stack({s, c}, 1)});
  const auto order =
      parts_last ? both.permute({0, 1, 3, 2}) : both.permute({1, 0, 2, 3});
  return order.reshape({2 * c.size(0), 2 * c.size(1)});
}

// The matrix along an axis behind so many numbers, and in front of so many.
Tensor along(const Tensor& x, int64_t before, const Tensor& matrix) {
  return kernels::axis_product(matrix, x.reshape({before, matrix.size(1), -1}));
}

}  // namespace

SpectralConvImpl::SpectralConvImpl(const SpectralConvOptions& options)
    : options_(options) {
  int64_t kept = 1;
  for (const int64_t m : options.modes) kept *= 2 * m;
  weight_ = register_parameter(
      "weight", torch::zeros({kept / 2, options.in, options.out, 2}));
}

std::vector<SpectralConvImpl::Waves> SpectralConvImpl::waves_on(
    const std::vector<int64_t>& nodes) {
  const std::lock_guard lock(last_);
  // They are kept for calls that may want gradients.
  const c10::InferenceMode ordinary(false);
  const auto options = weight_.detach().options();
  if (nodes == nodes_ && waves_[0].to.device() == options.device() &&
      waves_[0].to.scalar_type() == weight_.scalar_type()) {
    return waves_;
  }
  waves_.clear();
  for (size_t d = 0; d < nodes.size(); ++d) {
    const int64_t n = nodes[d], m = options_.modes[d];
    Waves waves{of_real(n, m), to_real(n, m)};
    if (d + 1 < nodes.size()) {
      const auto a = angles(n, both_signs(m));
      waves = {as_real(a.cos().t(), -a.sin().t(), /*parts_last=*/true),
               as_real(a.cos(), a.sin(), /*parts_last=*/false) / n};
    }
    waves_.push_back({waves.to.to(options), waves.back.to(options)});
  }
  nodes_ = nodes;
  return waves_;
}

Tensor SpectralConvImpl::forward(const Tensor& x) {
  const auto& modes = options_.modes;
  const auto axes = std::ssize(modes);
  const bool fits = x.dim() == axes + 2 && x.size(-1) == options_.in;
  std::vector<int64_t> nodes;
  for (int64_t d = 0; d < axes; ++d) {
    if (fits && x.size(d + 1) >= 2 * modes[static_cast<size_t>(d)]) {
      nodes.push_back(x.size(d + 1));
      continue;
    }
    throw std::invalid_argument(fmt::format(
        "[spectral_conv] expected cases on {} axes of twice ({}) nodes or more "
        "and {} channels, got ({})",
        axes, fmt::join(modes, ", "), options_.in, fmt::join(x.sizes(), ", ")));
  }
  const auto waves = waves_on(nodes);
  // Axis by axis from the last, (B, n_1, …, n_D, in) → (B, n_1, …, 2, m_D, in)
  // → … (B, 2, k…, in): parts stand before the frequencies there are already.
  int64_t before = x.size(0);
  for (const int64_t n : nodes) before *= n;
  auto spectrum = x.to(weight_.scalar_type());
  for (int64_t d = axes - 1; d >= 0; --d) {
    before /= nodes[static_cast<size_t>(d)];
    spectrum = along(spectrum, before, waves[static_cast<size_t>(d)].to);
  }
  // Each frequency's (B, in) · (in, out).
  const int64_t cases = x.size(0), kept = weight_.size(0);
  const auto parts_last =
      spectrum.reshape({cases, 2, kept, options_.in}).permute({2, 0, 3, 1});
  spectrum = kernels::mode_product(parts_last.contiguous(), weight_)
                 .permute({1, 3, 0, 2});
  for (int64_t d = 0; d < axes; ++d) {
    spectrum = along(spectrum, before, waves[static_cast<size_t>(d)].back);
    before *= nodes[static_cast<size_t>(d)];
  }
  auto shape = x.sizes().vec();
  shape.back() = options_.out;
  return spectrum.reshape(shape);
}

}  // namespace propagator::nn
