#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "propagator/train/trainable.h"

namespace propagator::train {

// Low-rank changes (LoRA) of some matrices of a module,
//   W = W₀ + (α/r) B A,   A (r, I) and B (O, r), B zero at first,
// where A and B are trained and W₀ stays. A parameter with more dimensions
// counts as the matrix (first, all others). The module has W itself, so that
// every kernel and every model reads a plain weight and knows nothing of this:
// `refresh` computes W, and `pull_back` takes its gradient G to the factors,
//   dA = (α/r) Bᵀ G,  dB = (α/r) G Aᵀ,
// which is the chain rule. Both only enqueue work where the weights are.
class LowRank {
 public:
  struct Options {
    int64_t rank = 8;
    double alpha = 16;
    int64_t seed = 0;
  };
  // The change of the module's parameter `name`; it keeps its present value as
  // W₀. At most the rank that the matrix can have.
  void add(const std::string& name, const torch::Tensor& weight,
           const Options& options);

  // Whether a parameter can have such a change.
  static bool fits(const torch::Tensor& weight);
  bool computes(const std::string& name) const;
  // The weights W that it computes; with a gradient each of their own.
  std::vector<torch::Tensor> weights() const;

  // "x.weight.lora_a", "x.weight.lora_b": what is trained. An optimiser may
  // move them, and their gradients, to other memory.
  NamedTensors factors() const;
  // W₀ by the names of the weights.
  NamedTensors bases() const;
  // Both, as `factors` and `bases` name them. DataError if one is missing.
  void restore(const NamedTensors& factors, const NamedTensors& bases);

  void refresh();
  void clear_gradients();
  void pull_back();

 private:
  struct Change {
    std::string name;
    torch::Tensor weight;  // of the module
    torch::Tensor base;
    torch::Tensor a, b;
    double scale;
  };
  std::vector<Change> changes_;
};

inline constexpr const char* kLoraA = ".lora_a";
inline constexpr const char* kLoraB = ".lora_b";

// W + (α/r) B A of a weight, in its own shape.
torch::Tensor with_low_rank(const torch::Tensor& weight, const torch::Tensor& a,
                            const torch::Tensor& b, double scale);

}  // namespace propagator::train
