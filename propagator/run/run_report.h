#pragma once

#include <nlohmann/json.hpp>

#include "propagator/explain/explanation.h"
#include "propagator/run/test.h"

namespace propagator::run {

// A page and the numbers of its explanations.
struct RunReport {
  std::filesystem::path page;
  nlohmann::json numbers;
};

// Writes report.html, figures/ and explain.json of a run: result,
// configuration, curves, fields, explanations, how to reproduce it. There is no
// `result` while the run is not finished; `weights` says where the model's come
// from. The task's data must be prepared.
RunReport write_run_report(const run::Experiment& experiment,
                           torch::nn::Module& model, const Runtime& runtime,
                           const TestResult* result, const std::string& weights,
                           const train::RunDirectory& run);

// Whether the run's task has anything to explain of its model.
bool can_be_explained(const Run& run);

// The explanations by themselves: explain.html, figures/ and explain.json.
RunReport write_explanation(const Run& run,
                            const explain::ExplainOptions& options);

}  // namespace propagator::run
