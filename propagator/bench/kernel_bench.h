#pragma once

#include "propagator/bench/bench.h"

namespace propagator::bench {

// One fused operator beside the same in libtorch's operations, at the sizes of
// an experiment.
struct KernelResult {
  std::string name;  // as in kernels/
  bool has_kernel;   // else the device runs the plain operations: one time
  double ours_us, reference_us;  // medians of one call
  double bytes;                  // the least that is read and written
  double operations;             // with floating-point numbers
  Shares shares = {};

  double bytes_per_second() const { return bytes / (ours_us * 1e-6); }
  nlohmann::json to_json() const;
};

// On CUDA the calls are captured, many in one graph, so that the gaps between
// launches do not count.
std::vector<KernelResult> bench_kernels(const run::Experiment& experiment,
                                        const Runtime& runtime,
                                        const Limits& limits,
                                        const BenchOptions& options);

}  // namespace propagator::bench
