#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/core/kinds.h"
#include "propagator/core/unused_option.h"
#include "propagator/nn/mask_type.h"

namespace propagator::models {

// What frames are made of. The number of nodes along an axis is no part of it:
// a network works on every grid that is large enough for it.
struct FrameShape {
  std::vector<bool> periodic = {true};  // of each of one to three axes
  int64_t channels = 1;
  int64_t given = 1;       // frames that a forecast begins with
  int64_t conditions = 0;  // numbers at each node that stay as they are
  // Later frames that are answered at once, from the given ones alone; 0: one
  // after the other, each from those before it.
  int64_t block = 0;

  int64_t axes() const { return std::ssize(periodic); }
};

// How many numbers of a node stay as they are: conditions and places.
int64_t known_numbers(const FrameShape& shape);
// Fields with what stays as it is behind the numbers of each node: conditions
// (B, nodes…, Q) and places from -1 to 1 along the axes that are not periodic;
// on the others no node differs from another. (B, T, nodes…, C) → (B, T,
// nodes…, C + Q + places).
torch::Tensor with_known(const torch::Tensor& fields,
                         const torch::Tensor& conditions,
                         const FrameShape& shape);

// ConfigError unless every axis has room for a convolution that sees so many
// nodes either way.
void check_reach(int64_t reach, const std::vector<int64_t>& nodes);

// Frames in the making, from those that were appended so far.
class FrameRollout {
 public:
  virtual ~FrameRollout() = default;
  // Appends frames (B, n, nodes…, C), `given` of them at first, and returns
  // what the network answers to the last: (B, nodes…, C).
  virtual torch::Tensor append(const torch::Tensor& frames) = 0;
};

// A network that answers to each frame from it and those before it; in numbers
// of order one, and with as many answers as there are channels. The first
// answer is that to frame `given - 1`, since all before it are given. With a
// block mask all answers are from the given frames alone: number n is to be the
// n-th frame after them.
class FrameNet : public torch::nn::Module {
 public:
  explicit FrameNet(const FrameShape& shape) : shape_(shape) {}

  // As in training, to all frames at once: (B, T, nodes…, C) and conditions
  // (B, nodes…, Q) → (B, T - given + 1, nodes…, C).
  virtual torch::Tensor forward(const torch::Tensor& frames,
                                const torch::Tensor& conditions) = 0;
  // `count` answers from frames (B, given, nodes…, C), of a block mask.
  virtual torch::Tensor later(const torch::Tensor& given,
                              const torch::Tensor& conditions, int64_t count);
  // As `forward`, frame by frame. By default only the last `given` frames
  // count. It refers to the network.
  virtual std::unique_ptr<FrameRollout> begin(const torch::Tensor& conditions);
  // Uniform on ±1/√(numbers that an output is made of).
  virtual void initialise(int64_t seed);

  const FrameShape& shape() const { return shape_; }

 protected:
  // Of how many frames there are answers; std::invalid_argument if of none.
  int64_t answers_to(const torch::Tensor& frames) const;

 private:
  FrameShape shape_;
};

// A network over windows of `given` frames, which are the channels of a field:
// (M, nodes…, given · C + Q + places) → (M, nodes…, C), or with a block mask
// → (M, nodes…, block · C).
class WindowNet : public FrameNet {
 public:
  using FrameNet::FrameNet;
  torch::Tensor forward(const torch::Tensor& frames,
                        const torch::Tensor& conditions) override;
  torch::Tensor later(const torch::Tensor& given,
                      const torch::Tensor& conditions, int64_t count) override;

 protected:
  static int64_t inputs_of(const FrameShape& shape);
  static int64_t outputs_of(const FrameShape& shape);
  virtual torch::Tensor answer(const torch::Tensor& inputs) = 0;
};

// A kind of network: its options, which also make it.
class FrameNetOptions {
 public:
  virtual ~FrameNetOptions() = default;
  virtual void describe(config::Schema& schema) = 0;
  // Chooses what is left open as suits the `nodes` along each axis, which are
  // known where data are. ConfigError if the fields contradict one another, the
  // shape or the nodes.
  virtual void settle(const FrameShape& shape,
                      const std::vector<int64_t>& nodes) = 0;
  virtual std::shared_ptr<FrameNet> make(const FrameShape& shape) const = 0;
  // Whether the shape that it is made of has a block.
  virtual nn::MaskType mask() const { return nn::MaskType::kCausal; }
  virtual std::vector<config::UnusedOption> unused_options() const {
    return {};
  }
};

// Of networks that can have either mask.
class MaskedFrameNetOptions : public FrameNetOptions {
 public:
  void describe(config::Schema& schema) override;
  nn::MaskType mask() const override { return mask_type; }

  nn::MaskType mask_type = nn::MaskType::kCausal;
};

// The networks by name, as `model.name` in a configuration.
const Kinds<FrameNetOptions>& frame_nets();

}  // namespace propagator::models
