#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/models/field_net.h"

namespace propagator::models {

struct PinnOptions : FieldNetOptions {
  int64_t width = 512;
  int64_t layers = 3;

  void describe(config::Schema& schema) override;
  void validate(const FieldDomain& domain) const override;
  bool windowed() const override { return false; }
  std::shared_ptr<FieldNet> make(const FieldDomain& domain) const override;
};

// The plain network of physics-informed learning: hidden layers of one width
// with tanh between them, each point by itself.
class Pinn : public FieldNet {
 public:
  Pinn(const PinnOptions& options, const FieldDomain& domain);
  autodiff::Jet forward(const autodiff::Jet& points) override;

 private:
  std::vector<torch::nn::Linear> layers_;
};

}  // namespace propagator::models
