#pragma once

#include <nlohmann/json.hpp>

#include "propagator/run/experiment.h"
#include "propagator/train/run_directory.h"

namespace propagator::run {

// A page and the numbers of its explanations.
struct RunReport {
  std::filesystem::path page;
  nlohmann::json numbers;
};

// The run's result as its task can show it; empty while there is none.
// DataError if result.json is of another program or damaged.
nlohmann::json read_result(const run::Experiment& experiment,
                           const train::RunDirectory& run);

// Writes report.html, figures/ and explain.json of a run: result,
// configuration, curves, fields, explanations, how to reproduce it. `result` is
// empty while the run is not finished; `weights` says where the model's come
// from. The task's data must be prepared.
RunReport write_run_report(const run::Experiment& experiment,
                           torch::nn::Module& model, const Runtime& runtime,
                           const nlohmann::json& result,
                           const std::string& weights,
                           const train::RunDirectory& run);

// The explanations by themselves: explain.html, figures/ and explain.json.
RunReport write_explanation(const run::Experiment& experiment,
                            torch::nn::Module& model, double most_work,
                            const train::RunDirectory& run);

}  // namespace propagator::run
