#include "propagator/nn/film.h"

#include <torch/utils.h>

#include "propagator/nn/wavelet_mlp.h"

namespace propagator::nn {

using autodiff::Jet;

Jet modulate(const Jet& x, const Modulation& by) {
  const auto y = by.gamma * x + by.beta;
  return by.omega ? *by.omega * y : y;
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
  const auto all = apply_linear(linear_, condition);
  const auto part = [&](int64_t n) {
    return autodiff::narrow(all, -1, n * options_.features, options_.features);
  };
  Modulation by{part(0), part(1)};
  if (options_.frequency) by.omega = part(2);
  return by;
}

Jet FilmImpl::forward(const Jet& x, const Jet& condition) {
  return modulate(x, modulation(condition));
}

}  // namespace propagator::nn
