#include "propagator/models/frame_fno.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>

#include "propagator/core/error.h"
#include "propagator/core/random.h"
#include "propagator/kernels/gelu.h"
#include "propagator/nn/init.h"

namespace propagator::models {
namespace {

using torch::Tensor;

constexpr int64_t kUsualModes = 12;
constexpr int64_t kMarginShare = 8;  // of an axis that is not periodic
constexpr int64_t kHiddenPerFrameWidth = 4;

int64_t margin_of(int64_t nodes) {
  return (nodes + kMarginShare - 1) / kMarginShare;
}

}  // namespace

void FrameFnoOptions::describe(config::Schema& s) {
  MaskedFrameNetOptions::describe(s);
  s.field("width", width,
          {.help = "channels of the layers", .min = 1, .max = 4096});
  s.field("layers", layers,
          {.help = "layers of spectral convolution", .min = 1, .max = 100});
  s.field("modes", modes,
          {.help = "lowest frequencies along each axis that layers see; 0: 12, "
                   "or as many as the grid has",
           .min = 0,
           .max = 4096});
}

void FrameFnoOptions::settle(const FrameShape& shape,
                             const std::vector<int64_t>& nodes) {
  int64_t most = kUsualModes;
  for (size_t d = 0; d < nodes.size(); ++d) {
    const int64_t all =
        nodes[d] + (shape.periodic[d] ? 0 : margin_of(nodes[d]));
    most = std::min(most, all / 2);
    if (2 * modes <= all) continue;
    throw ConfigError("model.modes",
                      fmt::format("an axis of {} nodes has at most {} modes, "
                                  "got {}",
                                  nodes[d], all / 2, modes));
  }
  if (modes == 0) modes = most;
}

std::shared_ptr<FrameNet> FrameFnoOptions::make(const FrameShape& shape) const {
  return std::make_shared<FrameFno>(*this, shape);
}

FrameFno::FrameFno(const FrameFnoOptions& o, const FrameShape& shape)
    : WindowNet(shape),
      width_(o.width),
      lift_(register_module("lift",
                            torch::nn::Linear(inputs_of(shape), o.width))),
      hidden_(register_module(
          "hidden",
          torch::nn::Linear(o.width, kHiddenPerFrameWidth * o.width))),
      out_(register_module("out",
                           torch::nn::Linear(kHiddenPerFrameWidth * o.width,
                                             outputs_of(shape)))) {
  for (int64_t n = 0; n < o.layers; ++n) {
    convolutions_.push_back(register_module(
        fmt::format("spectral{}", n),
        nn::SpectralConv(nn::SpectralConvOptions{
            .in = o.width,
            .out = o.width,
            .modes = std::vector<int64_t>(shape.periodic.size(), o.modes)})));
    pointwise_.push_back(register_module(fmt::format("pointwise{}", n),
                                         torch::nn::Linear(o.width, o.width)));
  }
}

void FrameFno::initialise(int64_t seed) {
  nn::initialise(*this, seed);
  const torch::NoGradGuard no_grad;
  const auto width = static_cast<double>(width_);
  for (size_t n = 0; n < convolutions_.size(); ++n) {
    auto weight = convolutions_[n]->named_parameters()["weight"];
    weight.copy_(RandomStream(seed, fmt::format("init/spectral{}.weight", n))
                     .uniform(weight.sizes(), 0, 1 / (width * width),
                              weight.scalar_type()));
  }
}

Tensor FrameFno::answer(const Tensor& inputs) {
  auto x = lift_->forward(inputs);
  std::vector<int64_t> margins{0, 0};  // from the last axis, both ends each
  for (int64_t d = shape().axes(); d > 0; --d) {
    const bool periodic = shape().periodic[static_cast<size_t>(d - 1)];
    margins.push_back(0);
    margins.push_back(periodic ? 0 : margin_of(x.size(d)));
  }
  // Without margins these would be copies.
  const bool has_margins = std::ranges::any_of(margins, std::identity());
  if (has_margins) x = torch::constant_pad_nd(x, margins);
  for (size_t n = 0; n < convolutions_.size(); ++n) {
    x = convolutions_[n]->forward(x).add_(pointwise_[n]->forward(x));
    if (n + 1 < convolutions_.size()) x = kernels::gelu(x);
  }
  for (int64_t d = 1; has_margins && d <= shape().axes(); ++d) {
    x = x.narrow(d, 0, inputs.size(d));
  }
  return out_->forward(kernels::gelu(hidden_->forward(x)));
}

}  // namespace propagator::models
