#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include "propagator/autodiff/field_net.h"

namespace propagator::nn {

// Points of a domain with every axis on [-1, 1]. Both numbers of an axis are
// buffers of the network that owns it, so that they move with it.
class UnitAxes {
 public:
  UnitAxes(torch::nn::Module& owner, const autodiff::FieldDomain& domain) {
    const auto low = torch::tensor(domain.low, torch::kFloat64);
    const auto high = torch::tensor(domain.high, torch::kFloat64);
    scale_ = owner.register_buffer("input_scale", 2 / (high - low));
    shift_ = owner.register_buffer("input_shift", -(high + low) / (high - low));
  }

  autodiff::Jet operator()(const autodiff::Jet& points) const {
    const auto type = points.rows().scalar_type();
    return points * scale_.to(type) + shift_.to(type);
  }

 private:
  torch::Tensor scale_, shift_;  // (D)
};

}  // namespace propagator::nn
