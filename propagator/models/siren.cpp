#include "propagator/models/siren.h"

#include <torch/types.h>

namespace propagator::models {

void SirenOptions::describe(config::Schema& s) {
  s.field("width", width, {.help = "width of a hidden layer", .min = 1});
  s.field("layers", layers, {.help = "hidden layers", .min = 1});
  s.field("first_w0", first_w0,
          {.help = "frequency of the first layer, over axes on [-1, 1]",
           .min = 1e-3,
           .max = 1e4});
  s.field("hidden_w0", hidden_w0,
          {.help = "frequency of the layers after the first",
           .min = 1e-3,
           .max = 1e4});
}

std::shared_ptr<FieldNet> SirenOptions::make(const FieldDomain& domain) const {
  return std::make_shared<Siren>(*this, domain);
}

Siren::Siren(const SirenOptions& options, const FieldDomain& domain)
    : net_(register_module(
          "net", nn::Siren(nn::SirenOptions{.inputs = domain.variables(),
                                            .outputs = domain.fields,
                                            .width = options.width,
                                            .layers = options.layers,
                                            .first_w0 = options.first_w0,
                                            .hidden_w0 = options.hidden_w0}))),
      axes_(*this, domain) {}

autodiff::Jet Siren::forward(const autodiff::Jet& points) {
  return net_->forward(axes_(points));
}

void Siren::initialise(int64_t seed) { net_->initialise(seed, "net"); }

}  // namespace propagator::models
