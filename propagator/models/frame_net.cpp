#include "propagator/models/frame_net.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/nn/grid_conv.h"
#include "propagator/nn/init.h"

namespace propagator::models {
namespace {

using torch::Tensor;

// Only the last frames count.
class WindowRollout : public FrameRollout {
 public:
  WindowRollout(FrameNet& net, Tensor conditions)
      : net_(net), conditions_(std::move(conditions)) {}

  Tensor append(const Tensor& frames) override {
    const int64_t given = net_.shape().given;
    const auto all = kept_.defined() ? torch::cat({kept_, frames}, 1) : frames;
    kept_ = all.narrow(1, all.size(1) - given, given);
    return net_.forward(kept_, conditions_).select(1, 0);
  }

 private:
  FrameNet& net_;
  Tensor conditions_, kept_;
};

// Of each node along the axes that are not periodic, from -1 to 1: (nodes…, K).
Tensor places_on(const FrameShape& shape, const Tensor& like) {
  std::vector<int64_t> nodes;
  for (int64_t d = 0; d < shape.axes(); ++d) {
    nodes.push_back(like.size(like.dim() - 1 - shape.axes() + d));
  }
  std::vector<Tensor> all;
  for (int64_t d = 0; d < shape.axes(); ++d) {
    if (shape.periodic[static_cast<size_t>(d)]) continue;
    std::vector<int64_t> alone(nodes.size(), 1);
    alone[static_cast<size_t>(d)] = nodes[static_cast<size_t>(d)];
    all.push_back(
        torch::linspace(-1, 1, alone[static_cast<size_t>(d)], like.options())
            .view(alone)
            .expand(nodes));
  }
  if (all.empty()) return {};
  return torch::stack(all, -1);
}

}  // namespace

int64_t known_numbers(const FrameShape& shape) {
  return shape.conditions + std::ranges::count(shape.periodic, false);
}

Tensor with_known(const Tensor& fields, const Tensor& conditions,
                  const FrameShape& shape) {
  std::vector<Tensor> parts{fields};
  auto each = fields.sizes().vec();
  const auto add = [&](const Tensor& known) {
    each.back() = known.size(-1);
    parts.push_back(known.expand(each));
  };
  if (conditions.defined() && conditions.size(-1) > 0) {
    add(conditions.unsqueeze(1));
  }
  if (const auto places = places_on(shape, fields); places.defined()) {
    add(places);
  }
  return torch::cat(parts, -1);
}

void MaskedFrameNetOptions::describe(config::Schema& s) {
  s.field("mask", mask_type,
          {.help = "causal: frame after frame, each from those before it; "
                   "block: all later frames at once, from the given ones",
           .later = true});
}

void check_reach(int64_t reach, const std::vector<int64_t>& nodes) {
  for (const int64_t n : nodes) {
    if (n >= 2 * reach + 1) continue;
    throw ConfigError(
        "model.reach",
        fmt::format("an axis of {} nodes has room for a reach of {}, got {}", n,
                    (n - 1) / 2, reach));
  }
}

Tensor FrameNet::later(const Tensor&, const Tensor&, int64_t) {
  throw std::logic_error("[forecast] the network has no block mask");
}

std::unique_ptr<FrameRollout> FrameNet::begin(const Tensor& conditions) {
  return std::make_unique<WindowRollout>(*this, conditions);
}

void FrameNet::initialise(int64_t seed) {
  nn::initialise(*this, seed);
  const torch::NoGradGuard no_grad;
  for (const auto& module : modules()) {
    auto* layer = module->as<nn::GridConvImpl>();
    if (layer == nullptr) continue;
    // It counts the channels of a node, and a convolution sees several.
    const double scale = 1 / std::sqrt(static_cast<double>(layer->seen()));
    for (auto& parameter : layer->parameters()) parameter.mul_(scale);
  }
}

int64_t FrameNet::answers_to(const Tensor& frames) const {
  const int64_t answers = frames.size(1) - shape_.given + 1;
  if (answers >= 1) return answers;
  throw std::invalid_argument(
      fmt::format("[forecast] expected {} frames or more, got ({})",
                  shape_.given, fmt::join(frames.sizes(), ", ")));
}

int64_t WindowNet::inputs_of(const FrameShape& shape) {
  return shape.given * shape.channels + known_numbers(shape);
}

int64_t WindowNet::outputs_of(const FrameShape& shape) {
  return std::max<int64_t>(shape.block, 1) * shape.channels;
}

Tensor WindowNet::later(const Tensor& given, const Tensor& conditions,
                        int64_t count) {
  auto windows = given.movedim(1, -2).flatten(-2).unsqueeze(1);
  const auto inputs = with_known(windows, conditions, shape());
  return answer(inputs.squeeze(1))
      .unflatten(-1, {shape().block, shape().channels})
      .movedim(-2, 1)
      .narrow(1, 0, count);
}

Tensor WindowNet::forward(const Tensor& frames, const Tensor& conditions) {
  const int64_t windows = answers_to(frames);
  if (shape().block > 0) {
    return later(frames.narrow(1, 0, shape().given), conditions, windows);
  }
  std::vector<Tensor> all;
  for (int64_t n = 0; n < shape().given; ++n) {
    all.push_back(frames.narrow(1, n, windows));
  }
  const auto inputs = with_known(torch::cat(all, -1), conditions, shape());
  auto apart = frames.sizes().vec();
  apart[1] = windows;
  return answer(inputs.flatten(0, 1)).view(apart);
}

}  // namespace propagator::models
