#pragma once

#include "propagator/nn/wave_mlp.h"
#include "propagator/nn/window_attention.h"

namespace propagator::nn {

// One block of PINNsFormer, on jets:
//   x ← x + attention(waves(x), source),  x ← x + mlp(waves(x)).
// Without a source tokens attend to waves(x), the block's own tokens.
class WaveBlockImpl : public torch::nn::Module {
 public:
  WaveBlockImpl(const WindowAttentionOptions& attention, int64_t feed_forward);
  autodiff::Jet forward(const autodiff::Jet& x, const autodiff::Jet* source,
                        const WindowPlaces& where);

 private:
  Waves before_attention_, before_mlp_;
  WindowAttention attention_;
  WaveMlp mlp_;
};
TORCH_MODULE(WaveBlock);

// A stack of blocks with waves after the last.
class WaveStackImpl : public torch::nn::Module {
 public:
  WaveStackImpl(const WindowAttentionOptions& attention, int64_t feed_forward,
                int64_t blocks);
  autodiff::Jet forward(autodiff::Jet x, const autodiff::Jet* source,
                        const WindowPlaces& where);

 private:
  std::vector<WaveBlock> blocks_;
  Waves after_;
};
TORCH_MODULE(WaveStack);

}  // namespace propagator::nn
