#pragma once

#include "propagator/core/config.h"

namespace propagator::nn {

// What a forecast of a frame may know: the given frames alone, so that all
// later ones are answered at once; or all frames before it, so that they are
// answered one after the other.
enum class MaskType { kBlock, kCausal };

}  // namespace propagator::nn

namespace propagator::config {

template <>
struct Names<nn::MaskType> {
  using enum nn::MaskType;
  static constexpr std::pair<nn::MaskType, const char*> all[] = {
      {kBlock, "block"}, {kCausal, "causal"}};
};

}  // namespace propagator::config
