#include "propagator/models/pinn_mamba.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "propagator/nn/selective_scan.h"

namespace propagator::models {

using autodiff::Jet;
using nn::apply_linear;

void PinnMambaOptions::describe(config::Schema& s) {
  s.field("width", width,
          {.help = "numbers of a token", .min = 1, .max = 65536});
  s.field("inner", inner,
          {.help = "channels of the mixer", .min = 1, .max = 65536});
  s.field("state", state,
          {.help = "states of a channel", .min = 1, .max = 4096});
  s.field("step_rank", step_rank,
          {.help = "numbers that the steps of all channels are made from",
           .min = 1,
           .max = 65536});
  s.field("convolution", convolution,
          {.help = "tokens that the convolution before the scan sees; 0 leaves "
                   "it out, as the S-Pformer paper's number of parameters does",
           .min = 0,
           .max = 64});
  s.field("hidden", hidden,
          {.help = "width of the head's hidden layers", .min = 1, .max = 1e6});
}

std::shared_ptr<FieldNet> PinnMambaOptions::make(
    const FieldDomain& domain) const {
  return std::make_shared<PinnMamba>(*this, domain);
}

MambaMixerImpl::MambaMixerImpl(const PinnMambaOptions& options)
    : options_(options),
      in_(options.width, 2 * options.inner),
      select_(options.inner, options.step_rank + 2 * options.state),
      step_(options.step_rank, options.inner),
      out_(options.inner, options.width) {
  register_module("in", in_);
  register_module("select", select_);
  register_module("step", step_);
  register_module("out", out_);
  if (options.convolution > 0) {
    const int64_t inner = options.inner;
    convolution_ = register_module(
        "convolution", torch::nn::Conv1d(torch::nn::Conv1dOptions(
                                             inner, inner, options.convolution)
                                             .groups(inner)));
  }
  log_rates_ = register_parameter("log_rates",
                                  torch::zeros({options.inner, options.state}));
  skip_ = register_parameter("skip", torch::ones({options.inner}));
  initialise_states();
}

void MambaMixerImpl::initialise_states() {
  const torch::NoGradGuard no_grad;
  const auto rates = torch::arange(1, options_.state + 1, torch::kFloat64);
  log_rates_.copy_(rates.log().expand_as(log_rates_));
  skip_.fill_(1.0);
}

// The last entry of a channel's kernel belongs to the token itself.
Jet MambaMixerImpl::convolve(const Jet& x) const {
  if (convolution_.is_empty()) return x;
  const auto kernel = convolution_->weight.squeeze(1);  // (I, k)
  const int64_t length = kernel.size(1);
  const auto sum = x.linear([&](const torch::Tensor& rows) {
    const auto padded = torch::constant_pad_nd(rows, {0, 0, length - 1, 0});
    auto terms = torch::zeros_like(rows);
    for (int64_t k = 0; k < length; ++k) {
      terms = terms + padded.narrow(-2, k, rows.size(-2)) * kernel.select(1, k);
    }
    return terms;
  });
  return sum + convolution_->bias;
}

Jet MambaMixerImpl::forward(const Jet& tokens) {
  const int64_t inner = options_.inner, state = options_.state;
  const int64_t rank = options_.step_rank;
  const auto both = apply_linear(in_, tokens);
  const auto x = autodiff::silu(convolve(narrow(both, -1, 0, inner)));
  const auto gate = autodiff::silu(narrow(both, -1, inner, inner));
  const auto selected = apply_linear(select_, x);
  const auto delta =
      autodiff::softplus(apply_linear(step_, narrow(selected, -1, 0, rank)));
  const auto y = nn::selective_scan(
      x, delta, -log_rates_.exp(), narrow(selected, -1, rank, state),
      narrow(selected, -1, rank + state, state), skip_);
  return apply_linear(out_, y * gate);
}

PinnMamba::PinnMamba(const PinnMambaOptions& options, const FieldDomain& domain)
    : embed_(domain.variables(), options.width),
      mixer_(options),
      mix_(options.width, options.width),
      head_(std::vector<int64_t>{options.width, options.hidden, options.hidden,
                                 domain.fields}) {
  register_module("embed", embed_);
  register_module("before_mixer", before_mixer_);
  register_module("mixer", mixer_);
  register_module("before_mix", before_mix_);
  register_module("mix", mix_);
  register_module("after_mix", after_mix_);
  register_module("head", head_);
}

Jet PinnMamba::forward(const Jet& points) {
  auto x = apply_linear(embed_, points);
  x = x + mixer_->forward(before_mixer_->forward(x));
  x = x + apply_linear(mix_, before_mix_->forward(x));
  return head_->forward(after_mix_->forward(x));
}

void PinnMamba::initialise(int64_t seed) {
  FieldNet::initialise(seed);
  mixer_->initialise_states();
}

}  // namespace propagator::models
