#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <mutex>
#include <vector>

namespace propagator::nn {

struct SpectralConvOptions {
  int64_t in = 1, out = 1;
  std::vector<int64_t> modes = {1};  // of each of D axes
};

// A convolution over a periodic grid that has the lowest frequencies alone, the
// layer of the Fourier neural operator: with x̂ = DFT x over the D axes,
//   y = Re' DFT⁻¹ ŷ,   ŷ_k = x̂_k R_k for kept k, and 0 for the others,
// with a complex matrix R_k for each frequency. Kept are k = -m … m-1 along
// every axis but the last, and 0 … m-1 along that one, whose negative
// frequencies are the conjugates (Re': of a real field). (B, n_1, …, n_D, in) →
// (B, n_1, …, n_D, out), for every grid of n ≥ 2 m nodes along each axis: the
// weights do not know it. There are 2 · 2^(D-1) Π m · in · out of them.
//
// Since few frequencies are kept, the transforms are products with the n × 2m
// numbers e^{-2πi k j / n} of each axis (kernels/axis_product.h): fewer and
// larger pieces of work than fast transforms of everything.
class SpectralConvImpl : public torch::nn::Module {
 public:
  explicit SpectralConvImpl(const SpectralConvOptions& options);

  torch::Tensor forward(const torch::Tensor& x);

 private:
  // Of an axis: to its kept frequencies and back, real matrices.
  struct Waves {
    torch::Tensor to, back;
  };
  // For a grid, which is seldom another than that of the last call; several
  // threads may ask at once.
  std::vector<Waves> waves_on(const std::vector<int64_t>& nodes);

  SpectralConvOptions options_;
  torch::Tensor weight_;  // R: (2 m_1, …, m_D as one, in, out, 2)
  std::mutex last_;       // guards what is kept of the last call
  std::vector<int64_t> nodes_;
  std::vector<Waves> waves_;
};
TORCH_MODULE(SpectralConv);

}  // namespace propagator::nn
