#pragma once

#include <torch/nn/module.h>

#include <string>

namespace propagator::testing {

// A choice of the parts of an encoder layer to freeze.
struct Frozen {
  bool attention, feed_forward, norm;

  // All eight of them, by number.
  static constexpr int kChoices = 8;
  static Frozen choice(int n) {
    return {(n & 1) != 0, (n & 2) != 0, (n & 4) != 0};
  }

  bool has(const std::string& name) const {
    if (name.starts_with("norm")) return norm;
    return name.starts_with("linear") ? feed_forward : attention;
  }
  void apply_to(torch::nn::Module& layer) const {
    for (auto& item : layer.named_parameters()) {
      if (item.value().is_floating_point() && has(item.key())) {
        item.value().set_requires_grad(false);
      }
    }
  }
};

}  // namespace propagator::testing
