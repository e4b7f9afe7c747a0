#pragma once

#include "propagator/bench/bench.h"

namespace propagator::bench {

// Attention among sensors with the Green's function of heat in two dimensions,
// forward and backward, diffusivity included, for growing numbers of tokens:
// the fused kernel (`green-attention`) and, where memory allows, the same with
// the whole bias and all weights (`green-attention-plain`). A case is a token;
// one of them is global. --cases gives one number of tokens.
std::vector<BenchResult> bench_green(const run::Experiment& experiment,
                                     const Runtime& runtime,
                                     const BenchOptions& options);

}  // namespace propagator::bench
