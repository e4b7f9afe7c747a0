#pragma once

#include "propagator/nn/grid_conv.h"

namespace propagator::nn {

struct GridLstmOptions {
  int64_t in = 1, out = 1;
  std::vector<bool> periodic = {true};  // of each of one to three axes
  int64_t reach = 1;                    // nodes either way
};

// What a layer carries from frame to frame, (B, nodes…, out) each; undefined
// before the first, which is the same as zeros.
struct GridLstmState {
  torch::Tensor hidden, cell;
};

// A recurrent layer whose maps are convolutions (ConvLSTM): with K over the
// grid (grid_conv.h),
//   i, f, g, o = K x_t + K' h_{t-1} + b;
//   c_t = σ(f) c_{t-1} + σ(i) tanh(g);   h_t = σ(o) tanh(c_t),
// (B, T, nodes…, in) → all h, (B, T, nodes…, out).
class GridLstmImpl : public torch::nn::Module {
 public:
  explicit GridLstmImpl(const GridLstmOptions& options);

  // The frames follow those that the state comes from, and bring it up to date.
  torch::Tensor forward(const torch::Tensor& x, GridLstmState& state);

  // Where the b of f is in that of all gates: it decides how long a state lasts
  // in the beginning.
  torch::Tensor forget_bias();

 private:
  int64_t out_;
  GridConv input_, hidden_;
};
TORCH_MODULE(GridLstm);

}  // namespace propagator::nn
