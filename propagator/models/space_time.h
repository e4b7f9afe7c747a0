#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "propagator/models/frame_net.h"
#include "propagator/nn/last_layer.h"
#include "propagator/nn/space_time_block.h"

namespace propagator::models {

struct SpaceTimeOptions : MaskedFrameNetOptions {
  int64_t width = 64;
  int64_t layers = 4;
  int64_t heads = 0;
  int64_t patch = 0;
  int64_t memory = 0;

  void describe(config::Schema& schema) override;
  void settle(const FrameShape& shape,
              const std::vector<int64_t>& nodes) override;
  std::shared_ptr<FrameNet> make(const FrameShape& shape) const override;
  std::vector<config::UnusedOption> unused_options() const override;
};

// A transformer over patches of p^D nodes of frames. With u_ts the I = C + Q +
// places numbers of each node of patch s of frame t,
//   x_ts = W_e u_ts + b_e;   L blocks (nn/space_time_block.h);
//   answer_ts = W_o LN(x_ts) + b_o.
// Queries and keys know where they are by rotations alone: on an axis of n
// patches number i has the angles 2π k i / n, with whole numbers k from 1 to
// 16, if it is periodic, and half of that if it is not; frame t has t f, with f
// from 1 to 1/100. So a periodic field that is moved by whole patches moves the
// answer, and the network works on every grid that is a multiple of the patch.
// A rollout keeps keys and values: a frame costs the work of one frame.
// Parameters: (p^D I + 1) W + L (16 W² + 11 W) + 2 W + (W + 1) p^D C.
//
// With a block mask later frames never enter. Frame n after the last given one
// has the tokens
//   x_ns = W_e [0, what is known of the nodes] + b_e + R(n f) m
// with one learned vector m, whose pairs of channels are rotated. All frames
// attend over time to the given ones alone, and over space to their own
// patches: no answer depends on how many others are asked for. It has W
// parameters more.
class SpaceTime : public FrameNet, public nn::HasLastLayer {
 public:
  SpaceTime(const SpaceTimeOptions& options, const FrameShape& shape);

  torch::Tensor forward(const torch::Tensor& frames,
                        const torch::Tensor& conditions) override;
  torch::Tensor later(const torch::Tensor& given,
                      const torch::Tensor& conditions, int64_t count) override;
  std::unique_ptr<FrameRollout> begin(const torch::Tensor& conditions) override;
  std::vector<std::string> last_layer() const override { return {"out"}; }

  // Frames (B, n, nodes…, C) that follow `before` others, of which the blocks'
  // caches know; the last `wanted` answers, (B, wanted, nodes…, C).
  torch::Tensor answers(const torch::Tensor& frames,
                        const torch::Tensor& conditions, int64_t before,
                        std::vector<nn::FrameCache>* caches, int64_t wanted);
  size_t layers() const { return blocks_.size(); }
  int64_t patch() const { return patch_; }  // nodes along each axis
  nn::SpaceTimeBlock block(size_t layer) const { return blocks_[layer]; }

 private:
  nn::SpaceTimeAngles angles(torch::IntArrayRef nodes, int64_t before,
                             int64_t frames) const;
  torch::Tensor tokens(const torch::Tensor& frames,
                       const torch::Tensor& conditions);  // (B, T, S, W)
  // Of the last `wanted` frames of x (B, T, S, W), the blocks done.
  torch::Tensor fields(const torch::Tensor& x, torch::IntArrayRef nodes,
                       int64_t wanted);

  int64_t patch_;
  torch::nn::Linear embed_;
  std::vector<nn::SpaceTimeBlock> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear out_;
  torch::Tensor turns_;        // along an axis: (A, D / 2)
  torch::Tensor frequencies_;  // radians per frame: (D / 2)
  // Of the tokens of hidden frames, (W) and (W / 2); undefined without any.
  torch::Tensor mask_, mask_frequencies_;
};

}  // namespace propagator::models
