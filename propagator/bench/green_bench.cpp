#include "propagator/bench/green_bench.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/core/random.h"
#include "propagator/kernels/greens/green_attention.h"
#include "propagator/pde/greens/green_kernel.h"

namespace propagator::bench {
namespace {

using torch::Tensor;

constexpr int64_t kHeads = 8, kDepth = 32, kDimensions = 2;
constexpr double kDiffusivity = 0.1;

// Sensors anywhere in the unit square at any time up to 1.
struct Sensors {
  Tensor q, k, v, gradient, at;
  kernels::GreenTerm term;

  Sensors(int64_t tokens, int64_t seed, const Runtime& runtime) {
    const RandomStream stream(seed, "bench/green");
    const auto options = runtime.options();
    const auto heads = [&] {
      return torch::randn({1, kHeads, tokens, kDepth}, options);
    };
    q = heads().requires_grad_();
    k = heads().requires_grad_();
    v = heads().requires_grad_();
    gradient = heads();
    at = stream.uniform({1, tokens, kDimensions + 1}, 0, 1, torch::kFloat64)
             .to(options);
    pde::GreenOptions green;
    green.dimensions = kDimensions;
    green.rate = kDiffusivity;
    pde::GreenKernel kernel(green);
    kernel.parameters = kernel.parameters.to(options).requires_grad_();
    term = kernel.with_global_token();
  }

  void run(decltype(kernels::green_attention)* attention) const {
    const auto out = attention(q, k, v, term, {at, at});
    torch::autograd::grad({out}, {q, k, v, term.parameters}, {gradient});
  }
};

// Pairs of which the query sees the key: all earlier ones, and the global token
// with everybody.
double visible_pairs(int64_t tokens) {
  const double sensors = number(tokens - 1);
  return 2 * sensors + 1 + sensors * (sensors - 1) / 2;
}

BenchResult result_of(const std::string& name, int64_t tokens,
                      const Spread& times, const Runtime& runtime) {
  const double width = number(kHeads * kDepth);
  // Two products forward and five backward. Queries, keys, values, the answer
  // and their gradients are read or written.
  return {.name = name,
          .cases = tokens,
          .ms = times,
          .operations = 14 * visible_pairs(tokens) * width,
          .bytes = item_bytes(runtime) * number(tokens) * 8 * width};
}

}  // namespace

std::vector<BenchResult> bench_green(const run::Experiment& experiment,
                                     const Runtime& runtime,
                                     const BenchOptions& options) {
  const PrecisionScope scope(runtime);
  const auto plan = plan_of(runtime, options, {1, 3}, {3, 11});
  std::vector<int64_t> sizes{256, 512, 1024, 2048};
  if (!runtime.device.is_cpu()) sizes = {1024, 2048, 4096, 8192, 16384};
  if (options.cases > 0) sizes = {options.cases};
  std::vector<BenchResult> results;
  for (const auto tokens : sizes) {
    const Sensors sensors(tokens, experiment.run().seed, runtime);
    const auto time = [&](const std::string& name,
                          decltype(kernels::green_attention)* attention) {
      const auto times = measure(fmt::format("{} of {}", name, tokens), runtime,
                                 plan, [&] { sensors.run(attention); });
      results.push_back(result_of(name, tokens, times, runtime));
    };
    time("green-attention", kernels::green_attention);
    try {
      time("green-attention-plain", kernels::green_attention_reference);
    } catch (const std::exception& error) {
      if (exit_code(error) != ExitCode::kDevice) throw;
      log::info("green-attention-plain of {} tokens does not fit", tokens);
    }
  }
  return results;
}

}  // namespace propagator::bench
