#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/models/frame_net.h"
#include "propagator/nn/last_layer.h"
#include "propagator/nn/spectral_conv.h"

namespace propagator::models {

struct FrameFnoOptions : MaskedFrameNetOptions {
  int64_t width = 32;
  int64_t layers = 4;
  int64_t modes = 0;

  void describe(config::Schema& schema) override;
  void settle(const FrameShape& shape,
              const std::vector<int64_t>& nodes) override;
  std::shared_ptr<FrameNet> make(const FrameShape& shape) const override;
};

// The Fourier neural operator on fields,
//   v = W₀ input + b₀;   v ← σ(K v + W v + b), L times;
//   answer = W₂ gelu(W₁ v + b₁) + b₂,
// with spectral convolutions K (nn/spectral_conv.h), gelu for σ but nothing in
// the last layer, and four times the width between W₁ and W₂. Axes that are
// not periodic are continued by zeros for an eighth of their length, which is
// cut off in the end.
class FrameFno : public WindowNet, public nn::HasLastLayer {
 public:
  FrameFno(const FrameFnoOptions& options, const FrameShape& shape);
  // As fno.h: complex weights with both parts on [0, 1/W²).
  void initialise(int64_t seed) override;
  std::vector<std::string> last_layer() const override { return {"out"}; }

 protected:
  torch::Tensor answer(const torch::Tensor& inputs) override;

 private:
  int64_t width_;
  torch::nn::Linear lift_, hidden_, out_;
  std::vector<nn::SpectralConv> convolutions_;
  std::vector<torch::nn::Linear> pointwise_;
};

}  // namespace propagator::models
