#pragma once

#include "propagator/models/field_net.h"
#include "propagator/nn/siren.h"
#include "propagator/nn/unit_axes.h"

namespace propagator::models {

struct SirenOptions : FieldNetOptions {
  int64_t width = 64;
  int64_t layers = 3;
  double first_w0 = 5;
  double hidden_w0 = 5;

  void describe(config::Schema& schema) override;
  void validate(const FieldDomain&) const override {}
  bool windowed() const override { return false; }
  std::shared_ptr<FieldNet> make(const FieldDomain& domain) const override;
};

// Layers of sines, sin(w0 (W x + b)), each point by itself; the axes of the
// domain are scaled to [-1, 1]. With D variables, F fields, width W and L
// layers it has (D + 1) W + (L - 1) (W + 1) W + (W + 1) F parameters.
//
// The usual w0 = 30 is one for pictures: with it L-BFGS ended far from the
// solutions of wave, reaction and klein-gordon, and so the default is lower.
class Siren : public FieldNet {
 public:
  Siren(const SirenOptions& options, const FieldDomain& domain);

  autodiff::Jet forward(const autodiff::Jet& points) override;
  void initialise(int64_t seed) override;

 private:
  nn::Siren net_;
  nn::UnitAxes axes_;
};

}  // namespace propagator::models
