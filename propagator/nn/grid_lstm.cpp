#include "propagator/nn/grid_lstm.h"

#include <torch/types.h>

namespace propagator::nn {

using torch::Tensor;

GridLstmImpl::GridLstmImpl(const GridLstmOptions& options)
    : out_(options.out),
      input_(register_module(
          "input", GridConv(GridConvOptions{.in = options.in,
                                            .out = 4 * options.out,
                                            .periodic = options.periodic,
                                            .reach = options.reach}))),
      hidden_(register_module(
          "hidden", GridConv(GridConvOptions{.in = options.out,
                                             .out = 4 * options.out,
                                             .periodic = options.periodic,
                                             .reach = options.reach,
                                             .bias = false}))) {}

Tensor GridLstmImpl::forward(const Tensor& x, GridLstmState& state) {
  // What frames bring does not wait for the state.
  const auto brought =
      input_(x.flatten(0, 1)).unflatten(0, {x.size(0), x.size(1)});
  std::vector<Tensor> all;
  for (int64_t t = 0; t < x.size(1); ++t) {
    auto gates = brought.select(1, t);
    if (state.hidden.defined()) gates = gates + hidden_(state.hidden);
    const auto parts = gates.chunk(4, -1);
    auto cell = torch::sigmoid(parts[0]) * torch::tanh(parts[2]);
    if (state.cell.defined()) {
      cell = cell + torch::sigmoid(parts[1]) * state.cell;
    }
    state = {torch::sigmoid(parts[3]) * torch::tanh(cell), cell};
    all.push_back(state.hidden);
  }
  return torch::stack(all, 1);
}

Tensor GridLstmImpl::forget_bias() {
  return input_->named_parameters()["bias"].narrow(0, out_, out_);
}

}  // namespace propagator::nn
