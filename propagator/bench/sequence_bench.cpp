#include "propagator/bench/sequence_bench.h"

#include <torch/utils.h>

#include "propagator/models/sequence.h"
#include "propagator/nn/init.h"

namespace propagator::bench {

BenchResult bench_generation(const run::Experiment& experiment,
                             const Runtime& runtime,
                             const BenchOptions& options) {
  const torch::NoGradGuard no_grad;
  const PrecisionScope scope(runtime);
  experiment.task().prepare(experiment.run().seed, runtime);
  const auto model = experiment.make_model(runtime);
  auto& sequences = models::as_sequence(*model);
  const auto& shape = sequences.shape();
  const auto tokens = torch::dtype(torch::kInt64).device(runtime.device);
  // Of one token that is text: the work does not depend on which it is.
  const auto source = torch::full({1, shape.source}, shape.tokens - 1, tokens);
  const auto start = torch::full({1, 1}, data::kStart, tokens);
  const auto times = measure(
      "generate", runtime, plan_of(runtime, options, {3, 21}, {3, 21}), [&] {
        const auto state = sequences.begin(source);
        auto token = start;
        for (int64_t n = 0; n < shape.target; ++n) {
          token = state->step(token).argmax(1, /*keepdim=*/true);
        }
      });
  const double weights = number(nn::parameter_count(*model));
  const double written = number(shape.target);
  return {.name = "generate",
          .cases = shape.target,
          .ms = times,
          .operations = 2 * weights * written,
          .bytes = item_bytes(runtime) * weights * written};
}

}  // namespace propagator::bench
