#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/models/frame_net.h"
#include "propagator/nn/grid_lstm.h"
#include "propagator/nn/last_layer.h"

namespace propagator::models {

struct ConvLstmOptions : FrameNetOptions {
  int64_t width = 16;
  int64_t layers = 2;
  int64_t reach = 2;

  void describe(config::Schema& schema) override;
  void settle(const FrameShape& shape,
              const std::vector<int64_t>& nodes) override;
  std::shared_ptr<FrameNet> make(const FrameShape& shape) const override;
};

// A recurrent network of convolutions: L layers (nn/grid_lstm.h), each over the
// hidden fields h of the one before it, the first over the I = C + Q + places
// numbers of each node of a frame;
//   answer_t = W h_t + b of the last.
// What it knows of earlier frames is its state alone, which a rollout carries:
// a frame costs the work of one frame. Parameters, with N = (2 reach + 1)^D:
//   Σ_layers 4 W (N (in + W) + 1) + (W + 1) C,   in = I, then W.
class ConvLstm : public FrameNet, public nn::HasLastLayer {
 public:
  ConvLstm(const ConvLstmOptions& options, const FrameShape& shape);

  torch::Tensor forward(const torch::Tensor& frames,
                        const torch::Tensor& conditions) override;
  std::unique_ptr<FrameRollout> begin(const torch::Tensor& conditions) override;
  // The forget gates begin with a bias of one: states last.
  void initialise(int64_t seed) override;
  std::vector<std::string> last_layer() const override { return {"out"}; }

  // The last `wanted` answers to frames (B, n, nodes…, C) that follow those of
  // the states, one of each layer: (B, wanted, nodes…, C).
  torch::Tensor answers(const torch::Tensor& frames,
                        const torch::Tensor& conditions,
                        std::vector<nn::GridLstmState>& states, int64_t wanted);
  size_t layers() const { return layers_.size(); }

 private:
  std::vector<nn::GridLstm> layers_;
  torch::nn::Linear out_;
};

}  // namespace propagator::models
