#include "propagator/models/conv_lstm.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace propagator::models {
namespace {

using torch::Tensor;

class ConvLstmRollout : public FrameRollout {
 public:
  ConvLstmRollout(ConvLstm& net, Tensor conditions)
      : net_(net), conditions_(std::move(conditions)), states_(net.layers()) {}

  Tensor append(const Tensor& frames) override {
    return net_.answers(frames, conditions_, states_, 1).select(1, 0);
  }

 private:
  ConvLstm& net_;
  Tensor conditions_;
  std::vector<nn::GridLstmState> states_;
};

}  // namespace

void ConvLstmOptions::describe(config::Schema& s) {
  s.field("width", width,
          {.help = "channels of the state of a layer", .min = 1, .max = 4096});
  s.field("layers", layers, {.help = "recurrent layers", .min = 1, .max = 100});
  s.field("reach", reach,
          {.help = "nodes either way that a convolution sees",
           .min = 1,
           .max = 64});
}

void ConvLstmOptions::settle(const FrameShape&,
                             const std::vector<int64_t>& nodes) {
  check_reach(reach, nodes);
}

std::shared_ptr<FrameNet> ConvLstmOptions::make(const FrameShape& shape) const {
  return std::make_shared<ConvLstm>(*this, shape);
}

ConvLstm::ConvLstm(const ConvLstmOptions& o, const FrameShape& shape)
    : FrameNet(shape),
      out_(register_module("out", torch::nn::Linear(o.width, shape.channels))) {
  for (int64_t n = 0; n < o.layers; ++n) {
    layers_.push_back(register_module(
        fmt::format("layer{}", n),
        nn::GridLstm(nn::GridLstmOptions{
            .in = n == 0 ? shape.channels + known_numbers(shape) : o.width,
            .out = o.width,
            .periodic = shape.periodic,
            .reach = o.reach})));
  }
}

void ConvLstm::initialise(int64_t seed) {
  FrameNet::initialise(seed);
  const torch::NoGradGuard no_grad;
  for (auto& layer : layers_) layer->forget_bias().fill_(1);
}

Tensor ConvLstm::answers(const Tensor& frames, const Tensor& conditions,
                         std::vector<nn::GridLstmState>& states,
                         int64_t wanted) {
  auto x = with_known(frames, conditions, shape());
  for (size_t n = 0; n < layers_.size(); ++n) {
    x = layers_[n]->forward(x, states[n]);
  }
  return out_->forward(x.narrow(1, x.size(1) - wanted, wanted));
}

Tensor ConvLstm::forward(const Tensor& frames, const Tensor& conditions) {
  std::vector<nn::GridLstmState> states(layers_.size());
  return answers(frames, conditions, states, answers_to(frames));
}

std::unique_ptr<FrameRollout> ConvLstm::begin(const Tensor& conditions) {
  return std::make_unique<ConvLstmRollout>(*this, conditions);
}

}  // namespace propagator::models
