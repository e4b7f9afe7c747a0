#include "propagator/autodiff/parameter_gradients.h"

#include <torch/autograd.h>
#include <torch/utils.h>

namespace propagator::autodiff {

using torch::Tensor;

std::vector<Tensor> parameter_gradients(const Tensor& scalar,
                                        const std::vector<Tensor>& parameters,
                                        bool keep_graph) {
  std::vector<Tensor> before;
  for (const auto& parameter : parameters) {
    before.push_back(parameter.grad());
    parameter.mutable_grad() = Tensor();
  }
  auto all = torch::autograd::grad({scalar}, parameters, {}, keep_graph,
                                   /*create_graph=*/false,
                                   /*allow_unused=*/true);
  for (size_t n = 0; n < all.size(); ++n) {
    if (!all[n].defined()) all[n] = torch::zeros_like(parameters[n]);
    const auto added = parameters[n].grad();
    if (added.defined()) all[n] = all[n] + added;
    parameters[n].mutable_grad() = before[n];
  }
  return all;
}

}  // namespace propagator::autodiff
