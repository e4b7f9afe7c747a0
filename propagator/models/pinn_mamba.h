#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "propagator/models/field_net.h"
#include "propagator/nn/wavelet_mlp.h"

namespace propagator::models {

struct PinnMambaOptions : FieldNetOptions {
  int64_t width = 32;
  int64_t inner = 32;
  int64_t state = 8;
  int64_t step_rank = 8;
  int64_t convolution = 0;
  int64_t hidden = 512;

  void describe(config::Schema& schema) override;
  void validate(const FieldDomain&) const override {}
  bool windowed() const override { return true; }
  std::shared_ptr<FieldNet> make(const FieldDomain& domain) const override;
};

// Mamba's mixing of tokens, (M; N, T, width) → (M; N, T, width):
//   [x, z] = in(·),   x = silu(convolution(x)),   [r, B, C] = select(x),
//   Δ = softplus(step(r)),   out(scan(x, Δ, A, B, C, D) silu(z)),
// every linear map with a bias; A = -exp(log_rates) keeps states decaying. The
// scan is that of nn/selective_scan.h: a token sees itself and earlier ones.
// The convolution, if any, takes each channel of the last k tokens.
class MambaMixerImpl : public torch::nn::Module {
 public:
  explicit MambaMixerImpl(const PinnMambaOptions& options);

  autodiff::Jet forward(const autodiff::Jet& tokens);
  // Rates 1 … S in every channel, D = 1.
  void initialise_states();

 private:
  autodiff::Jet convolve(const autodiff::Jet& x) const;

  PinnMambaOptions options_;
  torch::nn::Linear in_, select_, step_, out_;
  torch::nn::Conv1d convolution_{nullptr};  // weight (I, 1, k); may be empty
  torch::Tensor log_rates_;                 // (I, S)
  torch::Tensor skip_;                      // D: (I)
};
TORCH_MODULE(MambaMixer);

// PINN-Mamba of the S-Pformer paper: a window of points is embedded, mixed
// once,
//   x = embed(points),   x = x + mixer(waves(x)),
//   x = waves(x + mix(waves(x))),   u = head(x),
// and read by PINNsFormer's head of two hidden layers; waves are w₁ sin + w₂
// cos with two trained weights each, placed as in PINNsFormer.
//
// The document gives sizes and a total alone, 285 763 for 2 inputs and 1 field.
// What fits it is ours: a bias in every linear map and no convolution,
//   embed  2 → 32                                             96
//   mixer  in 32 → 64                                      2 112
//          select 32 → 8 + 8 + 8                             792
//          step 8 → 32                                       288
//          A 256, D 32                                       288
//          out 32 → 32                                     1 056
//   mix    32 → 32                                         1 056
//   waves  three before the head                               6
//   head   32 → 512 → 512 → 1 and two waves              280 069
// A convolution of k tokens adds 32 k + 32.
class PinnMamba : public FieldNet {
 public:
  PinnMamba(const PinnMambaOptions& options, const FieldDomain& domain);

  autodiff::Jet forward(const autodiff::Jet& points) override;
  void initialise(int64_t seed) override;

 private:
  torch::nn::Linear embed_;
  nn::Wavelet before_mixer_, before_mix_, after_mix_;
  MambaMixer mixer_;
  torch::nn::Linear mix_;
  nn::WaveletMlp head_;
};

}  // namespace propagator::models
