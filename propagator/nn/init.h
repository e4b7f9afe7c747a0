#pragma once

#include <torch/nn/module.h>

namespace propagator::nn {

// Sets every trainable parameter of `module` uniformly on ±1/√fan_in, norms to
// one and biases of norms to zero. Each parameter has its own random stream,
// named by its path: a new parameter changes none of the others.
void initialise(torch::nn::Module& module, int64_t seed);

// The number of trainable numbers.
int64_t parameter_count(const torch::nn::Module& module);

}  // namespace propagator::nn
