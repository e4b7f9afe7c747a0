#include "propagator/models/space_time.h"

#include <fmt/ranges.h>
#include <torch/types.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "propagator/core/error.h"
#include "propagator/nn/attention_bias.h"
#include "propagator/nn/linear.h"
#include "propagator/nn/patches.h"

namespace propagator::models {
namespace {

using torch::Tensor;

constexpr int64_t kUsualDepth = 16;    // channels of a head
constexpr int64_t kUsualPatch = 4;     // where the grid is not known
constexpr int64_t kUsualTokens = 128;  // patches of a frame, at most
constexpr int64_t kMostTokens = 4096;
constexpr double kMostTurns = 16;     // along an axis
constexpr double kSlowestTurn = 100;  // frames per radian

class SpaceTimeRollout : public FrameRollout {
 public:
  SpaceTimeRollout(SpaceTime& net, Tensor conditions)
      : net_(net), conditions_(std::move(conditions)), caches_(net.layers()) {}

  Tensor append(const Tensor& frames) override {
    const auto answer = net_.answers(frames, conditions_, before_, &caches_, 1);
    before_ += frames.size(1);
    return answer.select(1, 0);
  }

 private:
  SpaceTime& net_;
  Tensor conditions_;
  std::vector<nn::FrameCache> caches_;
  int64_t before_ = 0;
};

// A head's channels are pairs, one or more for each axis.
bool heads_fit(int64_t width, int64_t heads, int64_t axes) {
  const int64_t depth = width / heads;
  return width % heads == 0 && depth % 2 == 0 && depth >= 2 * axes;
}

int64_t heads_for(int64_t width, int64_t axes) {
  for (int64_t heads = width / kUsualDepth; heads > 1; --heads) {
    if (heads_fit(width, heads, axes)) return heads;
  }
  return 1;
}

int64_t tokens_of(const std::vector<int64_t>& nodes, int64_t patch) {
  int64_t tokens = 1;
  for (const int64_t n : nodes) tokens *= n / patch;
  return tokens;
}

// The smallest that leaves so few patches that attention among them is cheap.
int64_t patch_for(const std::vector<int64_t>& nodes) {
  if (nodes.empty()) return kUsualPatch;
  int64_t common = 0, best = 1;
  for (const int64_t n : nodes) common = std::gcd(common, n);
  for (int64_t p = 1; p <= common; ++p) {
    if (common % p != 0) continue;
    best = p;
    if (tokens_of(nodes, p) <= kUsualTokens) break;
  }
  if (const int64_t tokens = tokens_of(nodes, best); tokens > kMostTokens) {
    throw ConfigError(
        "model.patch",
        fmt::format("axes of {} nodes have no patch that all are multiples of "
                    "and that leaves {} patches or fewer",
                    fmt::join(nodes, ", "), kMostTokens),
        "the networks fno and cnn work on every grid");
  }
  return best;
}

// (A, pairs): pair n belongs to axis n mod A.
Tensor turns_of(const std::vector<bool>& periodic, int64_t pairs) {
  const auto axes = std::ssize(periodic);
  auto turns = torch::zeros({axes, pairs});
  for (int64_t n = 0; n < pairs; ++n) {
    const int64_t axis = n % axes;
    const int64_t last = (pairs - 1 - axis) / axes;
    const double share =
        last == 0 ? 0
                  : static_cast<double>(n / axes) / static_cast<double>(last);
    turns[axis][n] = std::round(std::pow(kMostTurns, share)) *
                     (periodic[static_cast<size_t>(axis)] ? 1 : 0.5);
  }
  return turns;
}

Tensor frequencies_of(int64_t pairs) {
  return torch::pow(kSlowestTurn, -torch::arange(pairs, torch::kFloat64) /
                                      std::max<int64_t>(pairs - 1, 1))
      .to(torch::kFloat32);
}

}  // namespace

void SpaceTimeOptions::describe(config::Schema& s) {
  MaskedFrameNetOptions::describe(s);
  s.field("width", width,
          {.help = "channels of a patch", .min = 2, .max = 8192});
  s.field("layers", layers,
          {.help = "blocks of attention over space, attention over time and a "
                   "feed-forward layer",
           .min = 1,
           .max = 100});
  s.field("heads", heads,
          {.help = "heads of attention; 0: of 16 channels or a few more",
           .min = 0,
           .max = 1024});
  s.field("patch", patch,
          {.help = "nodes of a patch along each axis; 0: as few as leave 128 "
                   "patches of a frame or fewer",
           .min = 0,
           .max = 1024});
  s.field("memory", memory,
          {.help = "frames that a frame attends to, its own among them; 0: as "
                   "many as a forecast begins with",
           .min = 0,
           .max = 1e6,
           .memory = true});
}

void SpaceTimeOptions::settle(const FrameShape& shape,
                              const std::vector<int64_t>& nodes) {
  if (width % 2 != 0 || width < 2 * shape.axes()) {
    throw ConfigError(
        "model.width",
        fmt::format("expected an even number of {} or more on {} axes, got {}",
                    2 * shape.axes(), shape.axes(), width));
  }
  if (heads == 0) heads = heads_for(width, shape.axes());
  if (!heads_fit(width, heads, shape.axes())) {
    throw ConfigError(
        "model.heads",
        fmt::format("expected heads of an even number of channels, {} or more "
                    "on {} axes, of a width of {}, got {} heads",
                    2 * shape.axes(), shape.axes(), width, heads));
  }
  if (patch == 0) patch = patch_for(nodes);
  for (const int64_t n : nodes) {
    if (n % patch == 0) continue;
    throw ConfigError(
        "model.patch",
        fmt::format("an axis of {} nodes is no multiple of a patch of {}", n,
                    patch));
  }
  if (memory == 0 && mask() == nn::MaskType::kCausal) memory = shape.given;
}

std::vector<config::UnusedOption> SpaceTimeOptions::unused_options() const {
  if (mask() == nn::MaskType::kCausal) return {};
  return {{"model.memory",
           "with model.mask=block all frames attend to all given ones"}};
}

std::shared_ptr<FrameNet> SpaceTimeOptions::make(
    const FrameShape& shape) const {
  return std::make_shared<SpaceTime>(*this, shape);
}

SpaceTime::SpaceTime(const SpaceTimeOptions& o, const FrameShape& shape)
    : FrameNet(shape),
      patch_(o.patch),
      embed_(nullptr),
      norm_(torch::nn::LayerNormOptions({o.width})),
      out_(nullptr) {
  int64_t nodes = 1;
  for (int64_t d = 0; d < shape.axes(); ++d) nodes *= o.patch;
  embed_ = register_module(
      "embed", torch::nn::Linear(
                   nodes * (shape.channels + known_numbers(shape)), o.width));
  for (int64_t n = 0; n < o.layers; ++n) {
    blocks_.push_back(
        register_module(fmt::format("block{}", n),
                        nn::SpaceTimeBlock(nn::SpaceTimeBlockOptions{
                            .width = o.width,
                            .heads = o.heads,
                            .memory = o.memory,
                            .given = shape.block > 0 ? shape.given : 0})));
  }
  register_module("norm", norm_);
  out_ = register_module("out",
                         torch::nn::Linear(o.width, nodes * shape.channels));
  const int64_t pairs = o.width / o.heads / 2;
  turns_ = register_buffer("turns", turns_of(shape.periodic, pairs));
  frequencies_ = register_buffer("frequencies", frequencies_of(pairs));
  if (shape.block == 0) return;
  mask_ = register_parameter("mask", torch::zeros({o.width}));
  mask_frequencies_ =
      register_buffer("mask_frequencies", frequencies_of(o.width / 2));
}

nn::SpaceTimeAngles SpaceTime::angles(torch::IntArrayRef nodes, int64_t before,
                                      int64_t frames) const {
  const auto options = turns_.options();
  Tensor sum;
  for (int64_t d = 0; d < shape().axes(); ++d) {
    const int64_t patches = nodes[static_cast<size_t>(d)] / patch_;
    std::vector<int64_t> alone(nodes.size() + 1, 1);
    alone[static_cast<size_t>(d)] = patches;
    const auto places = torch::arange(patches, options).view(alone) /
                        static_cast<double>(patches);
    const auto part = places * turns_.select(0, d);  // (…, patches, …, D / 2)
    sum = sum.defined() ? sum + part : part;
  }
  const auto time = torch::arange(before, before + frames, options);
  return {2 * std::numbers::pi * sum.flatten(0, -2),
          time.unsqueeze(1) * frequencies_};
}

Tensor SpaceTime::tokens(const Tensor& frames, const Tensor& conditions) {
  return nn::apply_linear(
      embed_, nn::patches_of(with_known(frames, conditions, shape()),
                             shape().axes(), patch_));
}

Tensor SpaceTime::fields(const Tensor& x, torch::IntArrayRef nodes,
                         int64_t wanted) {
  const auto last =
      nn::apply_norm(norm_, x.narrow(1, x.size(1) - wanted, wanted));
  return nn::fields_of(nn::apply_linear(out_, last), nodes, patch_);
}

Tensor SpaceTime::answers(const Tensor& frames, const Tensor& conditions,
                          int64_t before, std::vector<nn::FrameCache>* caches,
                          int64_t wanted) {
  const auto nodes = frames.sizes().slice(2, shape().periodic.size());
  auto x = tokens(frames, conditions);
  const auto where = angles(nodes, before, frames.size(1));
  for (size_t n = 0; n < blocks_.size(); ++n) {
    x = blocks_[n]->forward(x, where,
                            caches == nullptr ? nullptr : &(*caches)[n]);
  }
  return fields(x, nodes, wanted);
}

Tensor SpaceTime::later(const Tensor& given, const Tensor& conditions,
                        int64_t count) {
  const auto nodes = given.sizes().slice(2, shape().periodic.size());
  const auto known =
      tokens(torch::zeros_like(given.narrow(1, 0, 1)), conditions);
  const auto ahead = torch::arange(1, count + 1, mask_frequencies_.options());
  const auto hidden =
      nn::rotated(mask_.expand({count, -1}),
                  ahead.unsqueeze(1) * mask_frequencies_);  // (count, W)
  auto x =
      torch::cat({tokens(given, conditions), known + hidden.unsqueeze(1)}, 1);
  const auto where = angles(nodes, 0, x.size(1));
  for (auto& block : blocks_) x = block->forward(x, where);
  return fields(x, nodes, count);
}

Tensor SpaceTime::forward(const Tensor& frames, const Tensor& conditions) {
  const int64_t wanted = answers_to(frames);
  return shape().block > 0
             ? later(frames.narrow(1, 0, shape().given), conditions, wanted)
             : answers(frames, conditions, 0, nullptr, wanted);
}

std::unique_ptr<FrameRollout> SpaceTime::begin(const Tensor& conditions) {
  return std::make_unique<SpaceTimeRollout>(*this, conditions);
}

}  // namespace propagator::models
