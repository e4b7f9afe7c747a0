#include "propagator/models/density_former.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/kernels/encoder/value_tokens.h"

namespace propagator::models {

using torch::Tensor;

void DensityFormerOptions::describe(config::Schema& s) {
  s.field("components", components,
          {.help = "normal distributions in the mixture of a variable",
           .min = 1,
           .max = 1000});
  s.field("width", width,
          {.help = "numbers of a token", .min = 1, .max = 4096});
  s.field("heads", heads, {.help = "attention heads", .min = 1, .max = 256});
  s.field("layers", layers,
          {.help = "layers of attention", .min = 1, .max = 100});
  s.field("feed_forward", feed_forward,
          {.help = "width between the two linear maps of a layer",
           .min = 1,
           .max = 65536});
}

void DensityFormerOptions::validate(const DensityShape&) const {
  if (width % heads == 0) return;
  throw ConfigError(
      "model.heads",
      fmt::format("{} heads do not divide a width of {}", heads, width),
      "choose a width that is a multiple of the heads");
}

std::shared_ptr<Density> DensityFormerOptions::make(
    const DensityShape& shape) const {
  return std::make_shared<DensityFormer>(*this, shape);
}

DensityFormer::DensityFormer(const DensityFormerOptions& o,
                             const DensityShape& shape)
    : Density(shape),
      options_(o),
      value_in_(register_module("value_in", torch::nn::Linear(1, o.width))),
      value_out_(
          register_module("value_out", torch::nn::Linear(o.width, o.width))),
      given_(register_module(
          "given",
          torch::nn::Linear(std::max<int64_t>(shape.given, 1), o.width))),
      places_(register_parameter("places",
                                 torch::zeros({shape.variables, o.width}))),
      encoder_(register_module(
          "encoder",
          nn::Encoder(nn::EncoderOptions{.layers = o.layers,
                                         .width = o.width,
                                         .heads = o.heads,
                                         .feed_forward = o.feed_forward}))),
      head_(register_module("head",
                            torch::nn::Linear(o.width, 3 * o.components))) {}

void DensityFormer::initialise(int64_t seed) {
  Density::initialise(seed);
  const torch::NoGradGuard no_grad;
  head_->weight.zero_();
  head_->bias.zero_();
}

// Where nothing is given, the same number for all rows, once.
Tensor DensityFormer::given_part(const Tensor& given) {
  return given_
      ->forward(shape().given > 0 ? given
                                  : torch::zeros({1, 1}, given.options()))
      .unsqueeze(1);
}

Tensor DensityFormer::tokens(const Tensor& before, const Tensor& given_part,
                             int64_t first) {
  const auto of_rows = [&](const Tensor& offsets) {
    return kernels::value_tokens(before, {value_in_->weight, value_in_->bias,
                                          value_out_->weight, offsets});
  };
  const auto offsets =
      places_.narrow(0, first, before.size(1)) + value_out_->bias;
  if (shape().given > 0) return of_rows(offsets) + given_part;
  return of_rows(offsets + given_part.squeeze(0));
}

Tensor DensityFormer::mixtures(const Tensor& x, const Tensor& given) {
  const int64_t count = x.size(0), later = x.size(1) - 1;
  const auto part = given_part(given);
  const auto start = torch::zeros({part.size(0), 1}, x.options());
  // On a GPU a launch for the first token costs more than its rows.
  if (shape().given > 0 || count == 0 || !x.is_cpu()) {
    const auto before =
        torch::cat({start.expand({count, 1}), x.narrow(1, 0, later)}, 1);
    const auto none = torch::zeros({0, options_.width}, x.options());
    return head_->forward(
        encoder_->forward_causal({none, tokens(before, part, 0)}).rest);
  }
  const auto answers =
      encoder_->forward_causal({tokens(start, part, 0).squeeze(0),
                                tokens(x.narrow(1, 0, later), part, 1)});
  return torch::cat(
      {head_->forward(answers.first).unsqueeze(0).expand({count, 1, -1}),
       head_->forward(answers.rest)},
      1);
}

Tensor DensityFormer::scaled_log_prob(const Tensor& x, const Tensor& given) {
  return nn::NormalMixture::log_prob(mixtures(x, given), x).sum(-1);
}

Tensor DensityFormer::scaled_sample(const Tensor& given,
                                    const RandomStream& stream) {
  const int64_t count = given.size(0), variables = shape().variables;
  const auto drawn =
      nn::draw_mixture_numbers(count, variables, stream, given.options());
  const auto part = given_part(given);
  auto caches = encoder_->make_caches(count, variables, given.options());
  auto before = torch::zeros({count, 1}, given.options());
  std::vector<Tensor> x;
  for (int64_t d = 0; d < variables; ++d) {
    const auto answer = encoder_->step(tokens(before, part, d), caches);
    const auto mixture = nn::NormalMixture::of(head_->forward(answer));
    before = mixture.sample(drawn.uniform.narrow(1, d, 1),
                            drawn.normal.narrow(1, d, 1));
    x.push_back(before);
  }
  return torch::cat(x, 1);
}

}  // namespace propagator::models
