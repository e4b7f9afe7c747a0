#include "propagator/nn/film.h"

#include <torch/utils.h>

#include <utility>

#include "propagator/kernels/jet/jet_film.h"
#include "propagator/nn/wavelet_mlp.h"

namespace propagator::nn {

using autodiff::Jet;

namespace {

bool has_kernel(const Jet& x, const Modulation& by) {
  const auto &rows = x.rows(), &film = by.all().rows();
  return by.has_frequency() && autodiff::allows_kernels(x) &&
         by.all().layout() == x.layout() && film.dim() == rows.dim() &&
         film.numel() == 3 * rows.numel();
}

}  // namespace

Modulation::Modulation(Jet all, int64_t features)
    : all_(std::move(all)), features_(features) {}

bool Modulation::has_frequency() const {
  return all_.rows().size(-1) == 3 * features_;
}

Jet Modulation::part(int64_t n) const {
  return autodiff::narrow(all_, -1, n * features_, features_);
}

Jet modulate(const Jet& x, const Modulation& by) {
  const auto y = by.gamma() * x + by.beta();
  return by.has_frequency() ? by.omega() * y : y;
}

Jet modulated_sine(const Jet& x, const Modulation& by, double w0) {
  if (!has_kernel(x, by)) return autodiff::sin(modulate(x, by) * w0);
  return {kernels::jet_film(x.rows(), by.all().rows(), w0, x.layout().orders()),
          x.layout()};
}

FilmImpl::FilmImpl(const FilmOptions& options)
    : options_(options),
      linear_(register_module(
          "linear",
          torch::nn::Linear(options.condition,
                            (options.frequency ? 3 : 2) * options.features))) {
  reset();
}

void FilmImpl::reset() {
  const torch::NoGradGuard no_grad;
  linear_->weight.zero_();
  linear_->bias.fill_(1);
  linear_->bias.narrow(0, options_.features, options_.features).zero_();
}

Modulation FilmImpl::modulation(const Jet& condition) {
  return {apply_linear(linear_, condition), options_.features};
}

Jet FilmImpl::forward(const Jet& x, const Jet& condition) {
  return modulate(x, modulation(condition));
}

}  // namespace propagator::nn
