#pragma once

#include "propagator/train/trainable.h"

namespace propagator::tasks {

// Copies what a checkpoint has under each name of `state` into that tensor.
// DataError if it has none of that size.
void restore_state(const train::NamedTensors& state,
                   const train::NamedTensors& saved);

}  // namespace propagator::tasks
