#pragma once

#include "propagator/bench/bench.h"

namespace propagator::bench {

// Networks for fields. The work does not depend on the numbers: where the
// configuration has its fields simulated, random ones of their shape take their
// place.

// One training step: windows, loss, gradients, optimiser.
BenchResult bench_field_step(const run::Experiment& experiment,
                             const Runtime& runtime,
                             const BenchOptions& options);

// One forecast: all frames that a test asks for, one after the other, from the
// given ones; of one case unless `options` has more.
BenchResult bench_field_predict(const run::Experiment& experiment,
                                const Runtime& runtime,
                                const BenchOptions& options);

}  // namespace propagator::bench
