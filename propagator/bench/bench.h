#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "propagator/bench/timing.h"
#include "propagator/run/experiment.h"

namespace propagator::bench {

struct BenchOptions {
  int64_t repeats = 0;  // 0: what suits the device
  int64_t cases = 0;    // of rollout, data, eval, a cache; 0: eval.batch
};

// What one benchmark measured. Operations are those of its matrix products
// (data: of its stencil), bytes the least it has to read and write.
struct BenchResult {
  std::string name;
  std::string config_sha256 = {};
  int64_t cases;
  Spread ms;
  double operations, bytes;
  Shares shares = {};
  std::optional<double> floor_ms = {};    // of a step's matrix products alone
  std::optional<double> parameters = {};  // so that peers can compare theirs

  double seconds_per_case() const;
  nlohmann::json to_json() const;
};

struct BenchKind {
  std::string name, help;
  std::string task;    // of the configurations that it measures
  std::string config;  // measured if the user gives none
  // Keys and values where the configuration says nothing; and those that hold
  // whatever it says.
  std::map<std::string, std::string> settings, forced;
  // None for `kernels`, which has a table of its own (bench_kernels.h), and for
  // what `measure_all` measures at several sizes.
  BenchResult (*measure)(const run::Experiment&, const Runtime&,
                         const BenchOptions&);
  std::string formerly = "";  // a name that is still understood
  // What needs no configuration is measured only if it is asked for.
  std::vector<BenchResult> (*measure_all)(const run::Experiment&,
                                          const Runtime&,
                                          const BenchOptions&) = nullptr;
  bool of_fields = false;  // of `forecast`: for any field, not for plates
};
const std::vector<BenchKind>& all_benches();

// Of one number in the runtime's type.
double item_bytes(const Runtime& runtime);

// With the user's repeats, if there are any.
TimingPlan plan_of(const Runtime& runtime, const BenchOptions& options,
                   const TimingPlan& on_cpu, const TimingPlan& on_gpu);
// The user's, or those that a test takes at once; on a CPU not too many.
inline constexpr int64_t kMostCasesOnCpu = 16;
int64_t cases_of(const run::Experiment& experiment, const Runtime& runtime,
                 const BenchOptions& options);

struct TimedSteps {
  Spread ms;
  double weights;  // of the model
};
// Training steps of the experiment: data, which are prepared first, loss,
// gradients, optimiser.
TimedSteps time_steps(const std::string& name,
                      const run::Experiment& experiment, const Runtime& runtime,
                      const TimingPlan& plan);

std::vector<BenchResult> run_bench(const BenchKind& kind,
                                   const run::Experiment& experiment,
                                   const Runtime& runtime, const Limits& limits,
                                   const BenchOptions& options);

}  // namespace propagator::bench
