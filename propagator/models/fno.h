#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/models/field_net.h"
#include "propagator/nn/data_shaped.h"
#include "propagator/nn/grid_spline.h"
#include "propagator/nn/last_layer.h"
#include "propagator/nn/spectral_conv.h"

namespace propagator::models {

struct FnoOptions : FieldNetOptions {
  std::vector<std::string> grid = {"32"};
  std::vector<std::string> modes = {"8"};
  int64_t width = 32;
  int64_t layers = 4;

  void describe(config::Schema& schema) override;
  void validate(const FieldDomain& domain) const override;
  bool windowed() const override { return false; }
  bool needs_readings() const override { return true; }
  int64_t smoothness() const override { return 2; }
  std::shared_ptr<FieldNet> make(const FieldDomain& domain) const override;

  // Nodes and modes along each of so many axes; ConfigError if the texts are
  // not one number, or one for each axis, that can be.
  std::vector<int64_t> nodes_along(int64_t axes) const;
  std::vector<int64_t> modes_along(int64_t axes) const;
};

// The Fourier neural operator. Readings go to the nearest nodes of a regular
// grid over the domain: its input there is the mean of what was read of each
// field, 0 where nothing was, a flag for each field that says which, and the
// node's place. Then
//   v ← W₀ input + b₀;   v ← σ(K v + W v + b), L times;
//   c = W₂ gelu(W₁ v + b₁) + b₂,
// with spectral convolutions K (nn/spectral_conv.h), gelu for σ but nothing in
// the last layer, and four times the width between W₁ and W₂. c, (n, …, F), are
// the coefficients of cubic B-splines (nn/grid_spline.h), the field at any
// point, with two continuous derivatives. With D variables, F fields, width W,
// L layers and m modes along each axis there are
//   (2 F + D + 1) W + L (2^D Π m · W² + (W + 1) W)
//   + 4 (W + 1) W + (4 W + 1) F
// parameters. Jets go through the splines; the grid is the same for all points.
class Fno : public FieldNet, public nn::DataShaped, public nn::HasLastLayer {
 public:
  Fno(const FnoOptions& options, const FieldDomain& domain);

  autodiff::Jet forward(const autodiff::Jet& points) override;
  // Linear maps uniform on ±1/√inputs, complex weights with real and imaginary
  // parts on [0, 1/W²), as the method has it.
  void initialise(int64_t seed) override;
  void observe(const autodiff::Observations& read) override;
  std::shared_ptr<void> hold() override;
  void take_shapes(const std::map<std::string, torch::Tensor>& tensors,
                   const std::string& prefix) override;
  std::vector<std::string> last_layer() const override { return {"out"}; }

  // (n_1, …, n_D, F)
  torch::Tensor coefficients();

 private:
  std::vector<int64_t> input_shape() const;

  FnoOptions options_;
  int64_t fields_;
  nn::GridSpline spline_;
  torch::nn::Linear lift_, hidden_, out_;
  std::vector<nn::SpectralConv> convolutions_;
  std::vector<torch::nn::Linear> pointwise_;
  torch::Tensor readings_;  // (n_1, …, n_D, 2 F): means and flags
  torch::Tensor places_;    // (n_1, …, n_D, D)
  torch::Tensor held_;
};

}  // namespace propagator::models
