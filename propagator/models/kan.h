#pragma once

#include <torch/nn/pimpl.h>

#include "propagator/models/field_net.h"

namespace propagator::models {

struct KanOptions : FieldNetOptions {
  std::string widths = "5,5";
  int64_t grid = 5;
  int64_t degree = 3;
  double grid_low = -1;
  double grid_high = 1;
  bool scale_inputs = true;

  void describe(config::Schema& schema) override;
  void validate(const FieldDomain& domain) const override;
  bool windowed() const override { return false; }
  int64_t smoothness() const override { return degree - 1; }
  std::shared_ptr<FieldNet> make(const FieldDomain& domain) const override;

  // The hidden widths as numbers; ConfigError if the text is not a list.
  std::vector<int64_t> hidden() const;
};

// One layer: node o is the sum over its edges of a function of each input,
//   y_o = b_o + Σ_i φ_oi(x_i),   φ(x) = v silu(x) + w Σ_k c_k B_k(x),
// with the B-splines B_k of nn/spline.h. (M; …, in) → (M; …, out).
//
// The document counts knots with every edge, and so they are kept, though none
// of them is trained. All edges of an input have the same ones: its splines
// are computed once, for all nodes.
class KanLayerImpl : public torch::nn::Module {
 public:
  KanLayerImpl(int64_t in, int64_t out, const KanOptions& options);

  autodiff::Jet forward(const autodiff::Jet& x);

 private:
  int64_t degree_;
  torch::Tensor coefficients_;               // c: (out, in, grid + degree)
  torch::Tensor knots_;                      // (out, in, grid + 2 degree + 1)
  torch::Tensor scale_base_, scale_spline_;  // v and w: (out, in)
  torch::Tensor bias_;                       // (out)
};
TORCH_MODULE(KanLayer);

// The Kolmogorov–Arnold network of the S-Pformer paper, layers D → widths → F.
// Inputs are scaled from the domain to the grid of the splines, outside of
// which only silu is left. With 2 inputs, 1 field and widths 5, 5 there are 40
// edges of 8 coefficients, 12 knots and 2 scales, and 11 biases: 891, of which
// 411 are trained.
class Kan : public FieldNet {
 public:
  Kan(const KanOptions& options, const FieldDomain& domain);

  autodiff::Jet forward(const autodiff::Jet& points) override;
  // Coefficients uniform on ±0.1, base scales with variance 1/in, spline
  // scales 1, biases 0.
  void initialise(int64_t seed) override;

 private:
  std::vector<KanLayer> layers_;
  torch::Tensor scale_, shift_;  // (D), of the inputs
};

}  // namespace propagator::models
