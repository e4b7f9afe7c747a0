#include "propagator/nn/spectral_conv.h"

#include <fmt/ranges.h>
#include <torch/fft.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <numeric>
#include <stdexcept>

namespace propagator::nn {
namespace {

using torch::Tensor;

// m of an axis and -m of an axis that has both signs.
Tensor kept_of(Tensor spectrum, const std::vector<int64_t>& modes) {
  const auto axes = std::ssize(modes);
  for (int64_t d = 1; d <= axes; ++d) {
    const int64_t m = modes[static_cast<size_t>(d - 1)];
    const auto low = spectrum.narrow(d, 0, m);
    spectrum =
        d == axes
            ? low
            : torch::cat({low, spectrum.narrow(d, spectrum.size(d) - m, m)}, d);
  }
  return spectrum;
}

// The inverse: zeros between m and -m, and behind the last axis' m, to so many.
Tensor with_zeros(Tensor kept, const std::vector<int64_t>& modes,
                  const std::vector<int64_t>& sizes) {
  const auto axes = std::ssize(modes);
  for (int64_t d = 1; d <= axes; ++d) {
    const int64_t m = modes[static_cast<size_t>(d - 1)];
    auto shape = kept.sizes().vec();
    shape[static_cast<size_t>(d)] =
        sizes[static_cast<size_t>(d - 1)] - kept.size(d);
    std::vector<Tensor> parts{kept.narrow(d, 0, m),
                              torch::zeros(shape, kept.options())};
    if (d < axes) parts.push_back(kept.narrow(d, m, m));
    kept = torch::cat(parts, d);
  }
  return kept;
}

// Along the last axis. Its frequency 0 is real in the spectrum of a real field;
// libraries differ in what they make of another.
Tensor real_inverse(const Tensor& spectrum, int64_t axis, int64_t nodes) {
  const auto mean = torch::real(spectrum.narrow(axis, 0, 1));
  const auto rest = spectrum.narrow(axis, 1, spectrum.size(axis) - 1);
  return torch::fft::irfft(
      torch::cat({torch::complex(mean, torch::zeros_like(mean)), rest}, axis),
      nodes, axis);
}

}  // namespace

SpectralConvImpl::SpectralConvImpl(const SpectralConvOptions& options)
    : options_(options) {
  int64_t kept = 1;
  for (const int64_t m : options.modes) kept *= 2 * m;
  weight_ = register_parameter(
      "weight", torch::zeros({kept / 2, options.in, options.out, 2}));
}

Tensor SpectralConvImpl::forward(const Tensor& x) {
  const auto& modes = options_.modes;
  const auto axes = std::ssize(modes);
  const bool fits = x.dim() == axes + 2 && x.size(-1) == options_.in;
  for (int64_t d = 0; d < axes; ++d) {
    if (fits && x.size(d + 1) >= 2 * modes[static_cast<size_t>(d)]) continue;
    throw std::invalid_argument(fmt::format(
        "[spectral_conv] expected cases on {} axes of twice ({}) nodes or more "
        "and {} channels, got ({})",
        axes, fmt::join(modes, ", "), options_.in, fmt::join(x.sizes(), ", ")));
  }
  std::vector<int64_t> all(modes.size()), sizes;
  std::iota(all.begin(), all.end(), 1);
  auto spectrum = torch::fft::rfftn(x.to(weight_.scalar_type()),
                                    at::OptionalIntArrayRef(), all);
  for (const int64_t d : all) sizes.push_back(spectrum.size(d));
  const auto kept = kept_of(spectrum, modes);
  auto shape = kept.sizes().vec();
  shape.back() = options_.out;
  // (K, B, in) · (K, in, out)
  const auto mixed =
      torch::bmm(kept.reshape({x.size(0), -1, options_.in}).transpose(0, 1),
                 torch::view_as_complex(weight_))
          .transpose(0, 1)
          .reshape(shape);
  spectrum = with_zeros(mixed, modes, sizes);
  all.pop_back();
  if (!all.empty()) {
    spectrum = torch::fft::ifftn(spectrum, at::OptionalIntArrayRef(), all);
  }
  return real_inverse(spectrum, axes, x.size(axes));
}

}  // namespace propagator::nn
