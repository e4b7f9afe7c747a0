#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <optional>

namespace propagator::nn {

// The angles by which queries and keys are rotated (attention_bias.h), of each
// patch and of each frame: (S, D / 2) and (T, D / 2).
struct SpaceTimeAngles {
  torch::Tensor space, time;
};

// Keys, already rotated, and values of the last frames of one block, (B, n, S,
// H, D); undefined before the first frame.
struct FrameCache {
  torch::Tensor keys, values;
};

// Shown what one patch attends to: among all S patches of its frame, (B, T, H,
// S), and among the last frames, itself last, (B, T, H, n), where weights of
// frames before the first are 0; or among the given ones.
struct SpaceTimeObserver {
  int64_t patch = 0;
  std::function<void(const torch::Tensor&weights)> space, time;
};

struct SpaceTimeBlockOptions {
  int64_t width = 64;
  int64_t heads = 4;
  int64_t memory = 5;  // frames that a frame attends to, its own among them
  int64_t given = 0;   // or the first so many, whichever frame it is
};

// One pre-norm block of a transformer over patches of frames, (B, T, S, C) →
// (B, T, S, C):
//   x ← x + Attention among the S patches of each frame (LN x)
//   x ← x + Attention of each patch to itself in the last frames (LN x)
//   x ← x + W₂ gelu(W₁ LN x + b₁) + b₂,   W₁: C → 4 C.
// Attention is that of attention.h, without biases, with rotated queries and
// keys. A frame attends to itself and the memory - 1 frames before it or, where
// some are given, to those alone; others are not even multiplied by zero. It
// has 16 C² + 11 C parameters.
class SpaceTimeBlockImpl : public torch::nn::Module {
 public:
  explicit SpaceTimeBlockImpl(const SpaceTimeBlockOptions& options);

  // The frames follow those of the cache, which is brought up to date; without
  // one they are the first. A block of given frames has no use for one.
  torch::Tensor forward(const torch::Tensor& x, const SpaceTimeAngles& angles,
                        FrameCache* cache = nullptr);

  // Of every forward; nothing ends it.
  void observe(std::optional<SpaceTimeObserver> observer) {
    observer_ = std::move(observer);
  }

 private:
  torch::Tensor over_space(const torch::Tensor& x, const torch::Tensor& angles);
  torch::Tensor over_time(const torch::Tensor& x, const torch::Tensor& angles,
                          FrameCache* cache);
  torch::Tensor over_given(const torch::Tensor& x, const torch::Tensor& angles);
  // (…, C) → (…, H, D), rotated.
  torch::Tensor rotated_heads(const torch::Tensor& x,
                              const torch::Tensor& angles) const;
  // From rotated queries and keys (B T, S, H, D).
  void show_space(const torch::Tensor& q, const torch::Tensor& k,
                  int64_t frames) const;

  SpaceTimeBlockOptions options_;
  std::optional<SpaceTimeObserver> observer_;
  torch::nn::LayerNorm norm1_, norm2_, norm3_;
  torch::nn::Linear space_qkv_, space_output_, time_qkv_, time_output_;
  torch::nn::Linear linear1_, linear2_;
};
TORCH_MODULE(SpaceTimeBlock);

}  // namespace propagator::nn
