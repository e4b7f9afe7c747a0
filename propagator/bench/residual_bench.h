#pragma once

#include "propagator/bench/bench.h"

namespace propagator::bench {

// One evaluation of a PDE's loss with the gradient of all parameters, as L-BFGS
// asks for it and in the way training runs it. Operations are those of linear
// layers and of attention, among the tokens of a window or to sensors.
BenchResult bench_gradient(const run::Experiment& experiment,
                           const Runtime& runtime, const BenchOptions& options);

}  // namespace propagator::bench
