#pragma once

#include "propagator/models/field_net.h"
#include "propagator/nn/gabor.h"
#include "propagator/nn/last_layer.h"
#include "propagator/nn/unit_axes.h"

namespace propagator::models {

struct WireOptions : FieldNetOptions {
  int64_t width = 64;
  int64_t layers = 3;
  double first_w0 = 30;
  double hidden_w0 = 30;
  double scale = 10;

  void describe(config::Schema& schema) override;
  void validate(const FieldDomain& domain) const override;
  bool windowed() const override { return false; }
  std::shared_ptr<FieldNet> make(const FieldDomain& domain) const override;
};

// Layers of complex Gabor wavelets (WIRE), nn/gabor.h, each point by itself,
// and the real part of a complex linear map behind them; the axes of the domain
// are scaled to [-1, 1]. With D variables, F fields, width W and L layers it
// has (D + 1) W + 2 (L - 1) (W + 1) W + (2 W + 1) F parameters: those of the
// first layer are real. The imaginary bias of the last map has no effect and is
// not there.
class Wire : public FieldNet, public nn::HasLastLayer {
 public:
  Wire(const WireOptions& options, const FieldDomain& domain);

  autodiff::Jet forward(const autodiff::Jet& points) override;
  // Real and imaginary parts of weights and biases uniform on ±1/√n, with n
  // complex inputs, as the method has it.
  void initialise(int64_t seed) override;
  std::vector<std::string> last_layer() const override {
    return {"out_real", "out_imaginary"};
  }

 private:
  std::vector<nn::GaborLayer> layers_;
  torch::nn::Linear out_real_, out_imaginary_;
  nn::UnitAxes axes_;
};

}  // namespace propagator::models
