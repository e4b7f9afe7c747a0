#pragma once

#include "propagator/models/heat_former.h"
#include "propagator/nn/init.h"

namespace propagator::testing {

// Three visible frames, two layers, width 16.
inline models::HeatFormerOptions small_options(
    models::MaskType mask, models::Inputs inputs = models::Inputs::kHonest) {
  models::HeatFormerOptions o;
  o.mask = mask;
  o.inputs = inputs;
  o.visible = 3;
  o.width = 16;
  o.layers = 2;
  o.heads = 4;
  o.feed_forward = 8;
  return o;
}

// A model with weights, in float64.
inline std::shared_ptr<models::HeatFormer> make_heat_former(
    const models::HeatFormerOptions& options, const models::FieldShape& shape) {
  auto model = std::make_shared<models::HeatFormer>(options, shape);
  nn::initialise(*model, 1);
  model->to(torch::kFloat64);
  return model;
}

}  // namespace propagator::testing
