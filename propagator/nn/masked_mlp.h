#pragma once

#include <torch/nn/modules/linear.h>

#include <vector>

namespace propagator::nn {

struct MaskedMlpOptions {
  int64_t variables = 2;  // D
  int64_t given = 0;      // C, numbers that all outputs may depend on
  int64_t outputs = 2;    // P, for each variable
  int64_t width = 64;     // of the hidden layers
  int64_t layers = 2;     // of them
  // The variables in the order in which they follow one another, each once;
  // empty: as they are numbered.
  std::vector<int64_t> order = {};
};

// A network whose outputs for a variable depend on those before it alone, and
// on what is given: x (N, D), given (N, C) → (N, D, P). Units have degrees, the
// place of the last variable that they know of; a weight that would lead to a
// lower degree is 0. Hidden layers after the first add to what they get.
// Begins with outputs of 0.
class MaskedMlpImpl : public torch::nn::Module {
 public:
  // std::invalid_argument if the order is not one of the variables.
  explicit MaskedMlpImpl(const MaskedMlpOptions& options);

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& given);
  // Back to outputs of 0: a network whose own initialisation draws every matrix
  // calls it afterwards.
  void reset_outputs();
  // Weight, bias and mask of each layer, as kernels::masked_mlp takes them.
  std::vector<torch::Tensor> layers() const;
  const std::vector<int64_t>& order() const { return options_.order; }

 private:
  struct Layer {
    torch::nn::Linear linear{nullptr};
    torch::Tensor mask;  // (out, in)
  };
  Layer layer(const std::string& name, const std::vector<int64_t>& from,
              const std::vector<int64_t>& to, bool strict);

  MaskedMlpOptions options_;
  std::vector<Layer> hidden_;
  Layer out_;
};
TORCH_MODULE(MaskedMlp);

}  // namespace propagator::nn
