#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/models/frame_net.h"
#include "propagator/nn/grid_conv.h"
#include "propagator/nn/last_layer.h"

namespace propagator::models {

struct FrameCnnOptions : MaskedFrameNetOptions {
  int64_t width = 32;
  int64_t layers = 6;
  int64_t reach = 2;

  void describe(config::Schema& schema) override;
  void settle(const FrameShape& shape,
              const std::vector<int64_t>& nodes) override;
  std::shared_ptr<FrameNet> make(const FrameShape& shape) const override;
};

// Plain convolutions: with K_n over a grid (nn/grid_conv.h),
//   v = K_0 input;   v ← v + K_n gelu(v), L times;   answer = W gelu(v) + b.
// A node sees (L + 1) · reach nodes either way, so what moves further than that
// from frame to frame cannot be learned.
class FrameCnn : public WindowNet, public nn::HasLastLayer {
 public:
  FrameCnn(const FrameCnnOptions& options, const FrameShape& shape);
  std::vector<std::string> last_layer() const override { return {"out"}; }

 protected:
  torch::Tensor answer(const torch::Tensor& inputs) override;

 private:
  std::vector<nn::GridConv> convolutions_;
  torch::nn::Linear out_;
};

}  // namespace propagator::models
