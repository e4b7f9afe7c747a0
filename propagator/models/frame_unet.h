#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/models/frame_net.h"
#include "propagator/nn/grid_conv.h"
#include "propagator/nn/last_layer.h"

namespace propagator::models {

struct FrameUnetOptions : MaskedFrameNetOptions {
  int64_t width = 16;
  int64_t levels = 0;

  void describe(config::Schema& schema) override;
  void settle(const FrameShape& shape,
              const std::vector<int64_t>& nodes) override;
  std::shared_ptr<FrameNet> make(const FrameShape& shape) const override;
};

// An encoder and decoder of convolutions on finer and coarser grids (U-Net).
// Level l has 1/2^l of the nodes along each axis and W_l = 2^l W channels. With
// convolutions that see a node either way (nn/grid_conv.h), blocks
//   R(v) = v + K' gelu(K gelu v)
// and U, which repeats each node along each axis,
//   v_0 = R(K input);   v_l = R(K gelu(v_{l-1})), every other node;
//   d_L = v_L;   d_l = R(K gelu[v_l, U d_{l+1}]);   answer = W gelu(d_0) + b.
// Nothing is normalised, so that no node knows a mean over the field. A field
// that is moved along periodic axes by multiples of 2^L nodes moves the answer.
// Parameters, with I inputs of a node and |a, b| = (3^D a + 1) b:
//   |I, W| + 2 Σ_{l ≤ L} |W_l, W_l| + (W + 1) C
//   + Σ_{l < L} (|W_l, 2 W_l| + |3 W_l, W_l| + 2 |W_l, W_l|).
class FrameUnet : public WindowNet, public nn::HasLastLayer {
 public:
  FrameUnet(const FrameUnetOptions& options, const FrameShape& shape);
  std::vector<std::string> last_layer() const override { return {"out"}; }

 protected:
  torch::Tensor answer(const torch::Tensor& inputs) override;

 private:
  struct Block {
    nn::GridConv first, second;
    torch::Tensor operator()(const torch::Tensor& x);
  };
  Block block(const std::string& name, int64_t width);

  std::vector<nn::GridConv> down_;  // to each level, the first from the inputs
  std::vector<nn::GridConv> up_;    // to each level but the last
  std::vector<Block> encoders_, decoders_;  // of each of them
  torch::nn::Linear out_;
};

}  // namespace propagator::models
