#pragma once

#include "propagator/bench/bench.h"

namespace propagator::bench {

// One sequence as long as the model's window, token by token, each the most
// probable one after those before it, its source included. A case is a token.
BenchResult bench_generation(const run::Experiment& experiment,
                             const Runtime& runtime,
                             const BenchOptions& options);

}  // namespace propagator::bench
