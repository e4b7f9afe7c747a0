#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "propagator/models/field_forecaster.h"
#include "propagator/nn/last_layer.h"
#include "propagator/nn/space_time_block.h"

namespace propagator::models {

struct SpaceTimeOptions : FrameNetOptions {
  int64_t width = 64;
  int64_t layers = 4;
  int64_t heads = 0;
  int64_t patch = 0;
  int64_t memory = 0;

  void describe(config::Schema& schema) override;
  void settle(const FrameShape& shape,
              const std::vector<int64_t>& nodes) override;
  std::shared_ptr<FrameNet> make(const FrameShape& shape) const override;
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
class SpaceTime : public FrameNet, public nn::HasLastLayer {
 public:
  SpaceTime(const SpaceTimeOptions& options, const FrameShape& shape);

  torch::Tensor forward(const torch::Tensor& frames,
                        const torch::Tensor& conditions) override;
  std::unique_ptr<FrameRollout> begin(const torch::Tensor& conditions) override;
  std::vector<std::string> last_layer() const override { return {"out"}; }

  // Frames (B, n, nodes…, C) that follow `before` others, of which the blocks'
  // caches know; the last `wanted` answers, (B, wanted, nodes…, C).
  torch::Tensor answers(const torch::Tensor& frames,
                        const torch::Tensor& conditions, int64_t before,
                        std::vector<nn::FrameCache>* caches, int64_t wanted);
  size_t layers() const { return blocks_.size(); }

 private:
  nn::SpaceTimeAngles angles(torch::IntArrayRef nodes, int64_t before,
                             int64_t frames) const;

  int64_t patch_;
  torch::nn::Linear embed_;
  std::vector<nn::SpaceTimeBlock> blocks_;
  torch::nn::LayerNorm norm_;
  torch::nn::Linear out_;
  torch::Tensor turns_;        // along an axis: (A, D / 2)
  torch::Tensor frequencies_;  // radians per frame: (D / 2)
};

}  // namespace propagator::models
