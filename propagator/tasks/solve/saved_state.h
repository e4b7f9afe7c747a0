#pragma once

#include <torch/types.h>

#include <map>
#include <string>

namespace propagator::tasks {

using State = std::map<std::string, torch::Tensor>;

// Copies what a checkpoint has under each name of `state` into that tensor.
// DataError if it has none of that size.
void restore_state(const State& state, const State& saved);

}  // namespace propagator::tasks
