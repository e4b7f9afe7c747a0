#include "propagator/nn/wavelet_block.h"

#include <fmt/format.h>

namespace propagator::nn {

using autodiff::Jet;

WaveletBlockImpl::WaveletBlockImpl(const WindowAttentionOptions& attention,
                                   int64_t feed_forward)
    : width_(attention.width),
      before_attention_(register_module("before_attention", Wavelet())),
      before_mlp_(register_module("before_mlp", Wavelet())),
      attention_(register_module("attention", WindowAttention(attention))),
      mlp_(register_module("mlp", WaveletMlp(std::vector<int64_t>{
                                      attention.width, feed_forward,
                                      feed_forward, attention.width}))) {}

Jet WaveletBlockImpl::forward(const Jet& x, const Jet* source,
                              const WindowPlaces& where) {
  const auto query = before_attention_->forward(x);
  const auto y =
      x + attention_->forward(query, source ? *source : query, where);
  const auto out = y + mlp_->forward(before_mlp_->forward(y));
  return adapter_.is_empty() ? out : adapter_->forward(out);
}

void WaveletBlockImpl::add_adapter(int64_t width) {
  adapter_ = register_module(kAdapterName, Adapter(width_, width));
}

WaveletStackImpl::WaveletStackImpl(const WindowAttentionOptions& attention,
                                   int64_t feed_forward, int64_t blocks)
    : after_(register_module("after", Wavelet())) {
  for (int64_t n = 0; n < blocks; ++n) {
    blocks_.push_back(register_module(fmt::format("block{}", n),
                                      WaveletBlock(attention, feed_forward)));
  }
}

Jet WaveletStackImpl::forward(Jet x, const Jet* source,
                              const WindowPlaces& where) {
  for (auto& block : blocks_) x = block->forward(x, source, where);
  return after_->forward(x);
}

}  // namespace propagator::nn
