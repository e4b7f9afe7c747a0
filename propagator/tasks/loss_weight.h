#pragma once

#include "propagator/core/config.h"

namespace propagator::tasks {

// The declaration of a loss term's weight; more would overflow in float32.
inline config::Meta loss_weight(std::string help) {
  return {.help = std::move(help), .min = 0, .max = 1e30};
}

}  // namespace propagator::tasks
