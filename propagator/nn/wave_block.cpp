#include "propagator/nn/wave_block.h"

#include <fmt/format.h>

namespace propagator::nn {

using autodiff::Jet;

WaveBlockImpl::WaveBlockImpl(const WindowAttentionOptions& attention,
                             int64_t feed_forward)
    : before_attention_(register_module("before_attention", Waves())),
      before_mlp_(register_module("before_mlp", Waves())),
      attention_(register_module("attention", WindowAttention(attention))),
      mlp_(register_module("mlp", WaveMlp(std::vector<int64_t>{
                                      attention.width, feed_forward,
                                      feed_forward, attention.width}))) {}

Jet WaveBlockImpl::forward(const Jet& x, const Jet* source,
                           const WindowPlaces& where) {
  const auto query = before_attention_->forward(x);
  const auto y =
      x + attention_->forward(query, source ? *source : query, where);
  return y + mlp_->forward(before_mlp_->forward(y));
}

WaveStackImpl::WaveStackImpl(const WindowAttentionOptions& attention,
                             int64_t feed_forward, int64_t blocks)
    : after_(register_module("after", Waves())) {
  for (int64_t n = 0; n < blocks; ++n) {
    blocks_.push_back(register_module(fmt::format("block{}", n),
                                      WaveBlock(attention, feed_forward)));
  }
}

Jet WaveStackImpl::forward(Jet x, const Jet* source,
                           const WindowPlaces& where) {
  for (auto& block : blocks_) x = block->forward(x, source, where);
  return after_->forward(x);
}

}  // namespace propagator::nn
