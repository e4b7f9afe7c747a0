#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <string>

#include "propagator/autodiff/jet.h"

namespace propagator::nn {

// What an attention calls its learned keys and values.
inline constexpr const char* kPrefixName = "prefix";

// P learned tokens that every query of an attention sees beside the others, for
// fine-tuning: they are keys k and values v of each head, and add
//   tanh(g_h) Σ_p softmax_p(q_i · k_p / √D) v_p
// to what the head mixes. The gate g is zero at first, so that a model with a
// prefix begins as it was without. The softmax is the prefix's own: kernels of
// the attention itself stay as they are, and so do its caches.
class LearnedPrefixImpl : public torch::nn::Module {
 public:
  LearnedPrefixImpl(int64_t width, int64_t heads, int64_t tokens);

  // Queries (B, H, T, D) → what is added, (B, H, T, D).
  torch::Tensor forward(const torch::Tensor& queries);
  // Queries (M; …, C) → (M; …, C), heads one after the other.
  autodiff::Jet forward(const autodiff::Jet& queries);
  void reset(int64_t seed, const std::string& path);

 private:
  int64_t heads_;
  torch::Tensor keys_, values_;  // (P, C)
  torch::Tensor gates_;          // (H)
};
TORCH_MODULE(LearnedPrefix);

}  // namespace propagator::nn
