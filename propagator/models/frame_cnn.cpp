#include "propagator/models/frame_cnn.h"

#include "propagator/kernels/gelu.h"

#include <fmt/format.h>
#include <torch/types.h>

namespace propagator::models {

using torch::Tensor;

void FrameCnnOptions::describe(config::Schema& s) {
  MaskedFrameNetOptions::describe(s);
  s.field("width", width,
          {.help = "channels of the layers", .min = 1, .max = 4096});
  s.field(
      "layers", layers,
      {.help = "layers of convolution after the first", .min = 1, .max = 100});
  s.field("reach", reach,
          {.help = "nodes either way that a convolution sees",
           .min = 1,
           .max = 64});
}

void FrameCnnOptions::settle(const FrameShape&,
                             const std::vector<int64_t>& nodes) {
  check_reach(reach, nodes);
}

std::shared_ptr<FrameNet> FrameCnnOptions::make(const FrameShape& shape) const {
  return std::make_shared<FrameCnn>(*this, shape);
}

FrameCnn::FrameCnn(const FrameCnnOptions& o, const FrameShape& shape)
    : WindowNet(shape),
      out_(register_module("out",
                           torch::nn::Linear(o.width, outputs_of(shape)))) {
  for (int64_t n = 0; n <= o.layers; ++n) {
    convolutions_.push_back(
        register_module(fmt::format("convolution{}", n),
                        nn::GridConv(nn::GridConvOptions{
                            .in = n == 0 ? inputs_of(shape) : o.width,
                            .out = o.width,
                            .periodic = shape.periodic,
                            .reach = o.reach})));
  }
}

Tensor FrameCnn::answer(const Tensor& inputs) {
  auto x = convolutions_[0]->forward(inputs);
  for (size_t n = 1; n < convolutions_.size(); ++n) {
    x = x + convolutions_[n]->forward(kernels::gelu(x));
  }
  return out_->forward(kernels::gelu(x));
}

}  // namespace propagator::models
