#include "propagator/nn/memory_attention.h"

#include <torch/utils.h>

#include "propagator/kernels/encoder/cached_attention.h"
#include "propagator/nn/linear.h"

namespace propagator::nn {

using torch::Tensor;

Memory Memory::rows(const Tensor& rows) const {
  return {keys.index_select(0, rows), values.index_select(0, rows),
          padding.defined() ? padding.index_select(0, rows) : padding};
}

MemoryAttentionImpl::MemoryAttentionImpl(const AttentionOptions& options)
    : options_(options),
      query_(linear_without_bias(options.width, options.width)),
      key_value_(linear_without_bias(options.width, 2 * options.width)),
      output_(linear_without_bias(options.width, options.width)) {
  register_module("query", query_);
  register_module("key_value", key_value_);
  register_module("output", output_);
}

Tensor MemoryAttentionImpl::split(const Tensor& x) const {
  const int64_t depth = options_.width / options_.heads;
  return x.view({x.size(0), x.size(1), options_.heads, depth}).transpose(1, 2);
}

Memory MemoryAttentionImpl::read(const Tensor& tokens, const Tensor& padding) {
  const auto parts = apply_linear(key_value_, tokens).chunk(2, -1);
  return {split(parts[0]).contiguous(), split(parts[1]).contiguous(), padding};
}

Tensor MemoryAttentionImpl::forward(const Tensor& x, const Memory& memory) {
  const auto q = split(apply_linear(query_, x));
  auto bias = AttentionBias::padded(memory.padding);
  bias.hard = hard_;
  if (observer_) observer_(attention_weights(q, memory.keys, bias), bias);
  const bool plain = bias.by_number() && !hard_;
  const auto mixed =
      plain && x.size(1) == 1 && !torch::GradMode::is_enabled()
          ? kernels::cached_attention(q, memory.keys, memory.values,
                                      memory.keys.size(2))
          : attention_reference(q, memory.keys, memory.values, bias);
  return apply_linear(
      output_, mixed.transpose(1, 2).reshape({x.size(0), x.size(1), -1}));
}

void set_hard_attention(torch::nn::Module& module, bool hard) {
  for (const auto& part : module.modules()) {
    if (auto* self = dynamic_cast<MultiHeadAttentionImpl*>(part.get())) {
      self->set_hard(hard);
    }
    if (auto* cross = dynamic_cast<MemoryAttentionImpl*>(part.get())) {
      cross->set_hard(hard);
    }
  }
}

}  // namespace propagator::nn
