#pragma once

#include "propagator/nn/adapter.h"
#include "propagator/nn/tuned_part.h"
#include "propagator/nn/wavelet_mlp.h"
#include "propagator/nn/window_attention.h"

namespace propagator::nn {

// One block of PINNsFormer, on jets:
//   x ← x + attention(waves(x), source),  x ← x + mlp(waves(x)).
// Without a source tokens attend to waves(x), the block's own tokens. A
// fine-tuning may add an adapter behind it.
class WaveletBlockImpl : public torch::nn::Module, public TakesAdapter {
 public:
  WaveletBlockImpl(const WindowAttentionOptions& attention,
                   int64_t feed_forward);
  autodiff::Jet forward(const autodiff::Jet& x, const autodiff::Jet* source,
                        const WindowPlaces& where);
  void add_adapter(int64_t width) override;

 private:
  int64_t width_;
  Wavelet before_attention_, before_mlp_;
  WindowAttention attention_;
  WaveletMlp mlp_;
  Adapter adapter_{nullptr};
};
TORCH_MODULE(WaveletBlock);

// A stack of blocks with waves after the last.
class WaveletStackImpl : public torch::nn::Module {
 public:
  WaveletStackImpl(const WindowAttentionOptions& attention,
                   int64_t feed_forward, int64_t blocks);
  autodiff::Jet forward(autodiff::Jet x, const autodiff::Jet* source,
                        const WindowPlaces& where);

 private:
  std::vector<WaveletBlock> blocks_;
  Wavelet after_;
};
TORCH_MODULE(WaveletStack);

}  // namespace propagator::nn
