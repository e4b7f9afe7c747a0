#include "propagator/models/pinn.h"

#include "propagator/autodiff/mlp.h"

namespace propagator::models {

void PinnOptions::describe(config::Schema& s) {
  s.field("width", width, {.help = "width of a hidden layer", .min = 1});
  s.field("layers", layers, {.help = "hidden layers", .min = 1});
}

void PinnOptions::validate(const FieldDomain&) const {}

std::shared_ptr<FieldNet> PinnOptions::make(const FieldDomain& domain) const {
  return std::make_shared<Pinn>(*this, domain);
}

Pinn::Pinn(const PinnOptions& options, const FieldDomain& domain) {
  int64_t width = domain.variables();
  for (int64_t n = 0; n <= options.layers; ++n) {
    const int64_t next = n < options.layers ? options.width : domain.fields;
    layers_.push_back(register_module(fmt::format("layer{}", n),
                                      torch::nn::Linear(width, next)));
    width = next;
  }
}

autodiff::Jet Pinn::forward(const autodiff::Jet& points) {
  kernels::JetMlp net;
  for (const auto& layer : layers_) {
    net.weights.push_back(layer->weight);
    net.biases.push_back(layer->bias);
    net.scales.push_back(1);
  }
  return autodiff::mlp(points, std::move(net));
}

}  // namespace propagator::models
