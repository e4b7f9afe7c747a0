#pragma once

#include <torch/nn/modules/linear.h>

#include <string>
#include <vector>

#include "propagator/autodiff/mlp.h"
#include "propagator/nn/film.h"
#include "propagator/nn/last_layer.h"

namespace propagator::nn {

struct SirenLayerOptions {
  int64_t in = 1, out = 1;
  double w0 = 30;
  bool first = false;  // its inputs are coordinates
};

// y = sin(w0 (x Wᵀ + b)), jets (M; …, in) → (M; …, out); modulated as in
// the PGT paper,
//   y = sin(w0 ω ⊙ (γ ⊙ (x Wᵀ + b) + β)).
// The initial weights keep the distribution of the outputs from layer to layer.
class SirenLayerImpl : public torch::nn::Module {
 public:
  explicit SirenLayerImpl(const SirenLayerOptions& options);

  autodiff::Jet forward(const autodiff::Jet& x);
  autodiff::Jet forward(const autodiff::Jet& x, const Modulation& by);
  // As one more layer of a network without modulation.
  void add_to(kernels::JetMlp& net) const;
  // With n = in: W uniform on ±1/n in a first layer and ±√(6/n)/w0 in others,
  // b on ±1/√n. `path` names the layer's random streams.
  void initialise(int64_t seed, const std::string& path);

 private:
  SirenLayerOptions options_;
  torch::nn::Linear linear_;
};
TORCH_MODULE(SirenLayer);

struct SirenOptions {
  int64_t inputs = 1, outputs = 1;
  int64_t width = 256;
  int64_t layers = 3;  // with sines
  double first_w0 = 30, hidden_w0 = 30;
};

// A network of such layers with a linear one behind them, for inputs on
// [-1, 1]. Jets (M; …, inputs) → (M; …, outputs).
class SirenImpl : public torch::nn::Module, public HasLastLayer {
 public:
  explicit SirenImpl(const SirenOptions& options);

  autodiff::Jet forward(autodiff::Jet x);
  // One modulation for each layer with sines.
  autodiff::Jet forward(autodiff::Jet x, const std::vector<Modulation>& by);
  // The last weights are drawn as those of a hidden layer.
  void initialise(int64_t seed, const std::string& path);
  std::vector<std::string> last_layer() const override { return {"out"}; }

 private:
  SirenOptions options_;
  std::vector<SirenLayer> layers_;
  torch::nn::Linear out_;
};
TORCH_MODULE(Siren);

}  // namespace propagator::nn
