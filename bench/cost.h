#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "propagator/core/stopwatch.h"
#include "propagator/run/run.h"

// What the programs share that measure the cost of a door to a model beside the
// model itself.
namespace propagator::bench {

struct CostProgram {
  std::string name, about;
  int count;  // of calls or requests, unless the user has another number
  // Numbers by name, of the run in a folder.
  nlohmann::json (*measure)(const std::string& folder, int count);
};

// Reads the command line, measures, and prints JSON or writes it to a file.
// What changed sources would write is refused unless it is to be a draft. The
// exit code.
int run_cost_program(int argc, char** argv, const CostProgram& program);

// On one thread of the CPU in float32, whatever the run has.
run::OpenOptions on_cpu();
// One case of every input; eight of what else may have any length. Their
// numbers lie in the range of plates.
tasks::NamedTensors one_case(const std::vector<tasks::Surrogate::Port>& ports);

template <class Work>
double seconds_of(Work&& work) {
  const Stopwatch clock;
  work();
  return clock.seconds();
}
double quantile(std::vector<double> values, double share);

}  // namespace propagator::bench
