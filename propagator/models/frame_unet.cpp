#include "propagator/models/frame_unet.h"

#include <fmt/ranges.h>
#include <torch/types.h>

#include "propagator/core/error.h"
#include "propagator/kernels/gelu.h"

namespace propagator::models {
namespace {

using torch::Tensor;

constexpr int64_t kUsualLevels = 3;
constexpr int64_t kFewestNodes = 4;  // on the coarsest grid, by default

int64_t levels_for(const std::vector<int64_t>& nodes) {
  int64_t levels = 0;
  const auto halves = [&] {
    return std::ranges::all_of(nodes, [&](int64_t n) {
      const int64_t coarse = n >> (levels + 1);
      return coarse << (levels + 1) == n && coarse >= kFewestNodes;
    });
  };
  while (levels < kUsualLevels && halves()) ++levels;
  return levels;
}

}  // namespace

void FrameUnetOptions::describe(config::Schema& s) {
  MaskedFrameNetOptions::describe(s);
  s.field("width", width,
          {.help = "channels on the finest grid; each coarser one has twice as "
                   "many",
           .min = 1,
           .max = 1024});
  s.field("levels", levels,
          {.help = "times that the grid is halved; 0: 3, or as often as leaves "
                   "4 nodes along each axis",
           .min = 0,
           .max = 10});
}

void FrameUnetOptions::settle(const FrameShape&,
                              const std::vector<int64_t>& nodes) {
  if (levels == 0) levels = levels_for(nodes);
  const int64_t finest = int64_t{1} << levels;
  const bool fits =
      std::ranges::all_of(nodes, [&](int64_t n) { return n % finest == 0; });
  if (levels > 0 && fits) return;
  throw ConfigError(
      "model.levels",
      levels == 0
          ? fmt::format("a grid of {} nodes cannot be halved to {} or more "
                        "along each axis",
                        fmt::join(nodes, " × "), kFewestNodes)
          : fmt::format("a grid of {} nodes cannot be halved {} times, since "
                        "not all are multiples of {}",
                        fmt::join(nodes, " × "), levels, finest),
      "the networks fno and cnn work on every grid");
}

std::shared_ptr<FrameNet> FrameUnetOptions::make(
    const FrameShape& shape) const {
  return std::make_shared<FrameUnet>(*this, shape);
}

FrameUnet::FrameUnet(const FrameUnetOptions& o, const FrameShape& shape)
    : WindowNet(shape),
      out_(register_module("out",
                           torch::nn::Linear(o.width, outputs_of(shape)))) {
  const auto conv = [&](const std::string& name, int64_t in, int64_t out,
                        int64_t stride) {
    return register_module(
        name, nn::GridConv(nn::GridConvOptions{.in = in,
                                               .out = out,
                                               .periodic = shape.periodic,
                                               .stride = stride}));
  };
  for (int64_t l = 0; l <= o.levels; ++l) {
    const int64_t width = o.width << l;
    down_.push_back(conv(fmt::format("down{}", l),
                         l == 0 ? inputs_of(shape) : width / 2, width,
                         l == 0 ? 1 : 2));
    encoders_.push_back(block(fmt::format("encoder{}", l), width));
    if (l == o.levels) continue;
    up_.push_back(conv(fmt::format("up{}", l), 3 * width, width, 1));
    decoders_.push_back(block(fmt::format("decoder{}", l), width));
  }
}

FrameUnet::Block FrameUnet::block(const std::string& name, int64_t width) {
  const auto conv = [&](const char* end) {
    return register_module(
        name + end,
        nn::GridConv(nn::GridConvOptions{
            .in = width, .out = width, .periodic = shape().periodic}));
  };
  return {conv("_first"), conv("_second")};
}

Tensor FrameUnet::Block::operator()(const Tensor& x) {
  return x + second(kernels::gelu(first(kernels::gelu(x))));
}

Tensor FrameUnet::answer(const Tensor& inputs) {
  const auto levels = up_.size();
  for (int64_t d = 1; d <= shape().axes(); ++d) {
    if (inputs.size(d) % (int64_t{1} << levels) == 0) continue;
    throw std::invalid_argument(fmt::format(
        "[unet] expected {} axes of a multiple of {} nodes, got ({})",
        shape().axes(), int64_t{1} << levels, fmt::join(inputs.sizes(), ", ")));
  }
  std::vector<Tensor> encoded{encoders_[0](down_[0](inputs))};
  for (size_t l = 1; l <= levels; ++l) {
    encoded.push_back(encoders_[l](down_[l](kernels::gelu(encoded.back()))));
  }
  auto x = encoded.back();
  for (size_t l = levels; l-- > 0;) {
    x = torch::cat({encoded[l], nn::refined(x, shape().axes())}, -1);
    x = decoders_[l](up_[l](kernels::gelu(x)));
  }
  return out_->forward(kernels::gelu(x));
}

}  // namespace propagator::models
