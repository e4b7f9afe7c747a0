#pragma once

#include <torch/types.h>

namespace propagator::kernels {

// What a product does beside multiplying.
struct ProductOptions {
  double scale = 1;
  torch::Tensor add = {};   // of the result's shape; may be the result itself
  torch::Tensor bias = {};  // one number for each column
  bool relu = false;
};

// out = relu(scale · a b + add + bias), into memory that is there already:
// (M, K) (K, N) → (M, N), or a batch of them with one more dimension in front.
// Transposes and parts are views: of the last two strides of each matrix one
// is 1. On CUDA all of it is one call of the product library, at the precision
// that is set for float32 products.
void product(torch::Tensor out, const torch::Tensor& a, const torch::Tensor& b,
             const ProductOptions& options = {});

// The same in plain operations.
torch::Tensor product_reference(const torch::Tensor& a, const torch::Tensor& b,
                                const ProductOptions& options = {});

}  // namespace propagator::kernels
