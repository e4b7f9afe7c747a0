#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <functional>
#include <utility>

namespace propagator::kernels {

// A node of the graph that was given a list of tensors, which
// torch::autograd::Function does not take. Differentiable once.
class ListFunction : public torch::autograd::Node {
 public:
  using Tensors = torch::autograd::variable_list;
  // From the gradients of the outputs, some of which may be undefined, to those
  // of the inputs, in their order; of one that is not wanted any tensor.
  using Backward = std::function<Tensors(const Tensors&, const ListFunction&)>;

  explicit ListFunction(Backward backward) : backward_(std::move(backward)) {}

  // Has `backward` lead from the outputs to the inputs.
  static void record(const Tensors& outputs, const Tensors& inputs,
                     Backward backward) {
    const auto node = std::make_shared<ListFunction>(std::move(backward));
    node->set_next_edges(torch::autograd::collect_next_edges(inputs));
    for (auto output : outputs) torch::autograd::set_history(output, node);
  }

  bool wants(size_t input) const { return task_should_compute_output(input); }

  Tensors apply(Tensors&& gradients) override {
    TORCH_CHECK(backward_, torch::autograd::ERR_BACKWARD_TWICE);
    for (const auto& one : gradients) {
      if (one.defined()) return backward_(gradients, *this);
    }
    return Tensors(num_outputs());
  }
  void release_variables() override { backward_ = nullptr; }

 private:
  Backward backward_;
};

// Parts of one tensor of gradients, in their order.
class GradientParts {
 public:
  explicit GradientParts(torch::Tensor all) : all_(std::move(all)) {}

  torch::Tensor like(const torch::Tensor& parameter) {
    const int64_t size = parameter.numel();
    const auto part = all_.narrow(0, used_, size).view(parameter.sizes());
    used_ += size;
    return part;
  }

 private:
  torch::Tensor all_;
  int64_t used_ = 0;
};

}  // namespace propagator::kernels
