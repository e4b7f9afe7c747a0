#include "propagator/nn/gabor.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "propagator/nn/wavelet_mlp.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using torch::Tensor;

// Its cosine and its sine, each through the fused kernel of w₁ sin + w₂ cos.
struct Turn {
  Jet cosine, sine;
};
Turn turn_by(const Jet& angle) {
  const auto one = torch::ones({1}, angle.rows().options());
  const auto none = torch::zeros_like(one);
  return {autodiff::waves(angle, none, one), autodiff::waves(angle, one, none)};
}

}  // namespace

GaborLayerImpl::GaborLayerImpl(const GaborLayerOptions& options)
    : options_(options),
      real_(
          register_module("real", torch::nn::Linear(options.in, options.out))) {
  if (options.first) return;
  imaginary_ =
      register_module("imaginary", torch::nn::Linear(options.in, options.out));
}

Jet GaborLayerImpl::forward(const Jet& x) {
  const double square = options_.scale * options_.scale;
  if (options_.first) {
    const auto p = apply_linear(real_, x);
    const auto envelope = autodiff::exp(p * p * -square);
    const auto turn = turn_by(p * options_.w0);
    return autodiff::cat({envelope * turn.cosine, envelope * turn.sine}, -1);
  }
  const auto &a = real_->weight, &b = imaginary_->weight;
  const auto z = autodiff::linear(x,
                                  torch::cat({torch::cat({a, -b}, 1),  //
                                              torch::cat({b, a}, 1)}),
                                  torch::cat({real_->bias, imaginary_->bias}));
  const auto p = autodiff::narrow(z, -1, 0, options_.out);
  const auto q = autodiff::narrow(z, -1, options_.out, options_.out);
  const auto squares = z * z * -square;
  const auto envelope =
      autodiff::exp(autodiff::narrow(squares, -1, 0, options_.out) +
                    autodiff::narrow(squares, -1, options_.out, options_.out) +
                    q * -options_.w0);
  const auto turn = turn_by(p * options_.w0);
  return autodiff::cat({envelope * turn.cosine, envelope * turn.sine}, -1);
}

}  // namespace propagator::nn
