#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <vector>

namespace propagator::nn {

// Fields (B, nodes…, C) with `width` nodes more at both ends of each axis: from
// the other end where the axis is periodic, else the last node again and again.
torch::Tensor padded(const torch::Tensor& x, const std::vector<bool>& periodic,
                     int64_t width);

// Fields (B, nodes…, C) on a grid of twice as many nodes along each axis: every
// node again and again.
torch::Tensor refined(const torch::Tensor& x, int64_t axes);

struct GridConvOptions {
  int64_t in = 1, out = 1;
  std::vector<bool> periodic = {true};  // of each of one to three axes
  int64_t reach = 1;                    // nodes either way
  int64_t stride = 1;
  bool bias = true;
};

// A convolution over a grid that knows its edges,
//   y_n = b + Σ_{|k| ≤ reach} W_k x_{stride n + k},
// (B, n_1, …, n_D, in) → (B, n_1/stride, …, n_D/stride, out); x beyond an edge
// is as `padded` has it. It works on every grid; b is there if `bias` is.
class GridConvImpl : public torch::nn::Module {
 public:
  explicit GridConvImpl(const GridConvOptions& options);

  torch::Tensor forward(const torch::Tensor& x);
  // Nodes that an output is made of.
  int64_t seen() const { return weight_[0][0].numel(); }

 private:
  GridConvOptions options_;
  torch::Tensor weight_, bias_;  // (out, in, 2 reach + 1, …), (out)
};
TORCH_MODULE(GridConv);

}  // namespace propagator::nn
