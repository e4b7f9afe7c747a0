#pragma once

#include <nlohmann/json.hpp>

#include "propagator/run/experiment.h"
#include "propagator/train/run_directory.h"

namespace propagator::cli {

// Where it trains. DeviceError if that cannot be.
Runtime runtime_for_training(const run::Experiment& experiment);

// DeviceError if memory has run short; its hint names the keys that the
// experiment has for that.
void expect_memory(const run::Experiment& experiment,
                   const std::exception& error);

// Returns what `work` does, with that hint if it fails.
template <class Work>
auto with_hint_for_memory(const run::Experiment& experiment, Work&& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    expect_memory(experiment, error);
    throw;
  }
}

// Tests a model on a split and audits it for leaks: the numbers, and where
// they come from (configuration, code, machine, precision).
nlohmann::json test_model(const run::Experiment& experiment,
                          torch::nn::Module& model, const Runtime& runtime,
                          data::Split split);

// The common part of `train` and `resume`: makes the data and the model, opens
// the run (only then, so that bad data leaves no run behind), trains to the
// end, tests the best model, writes result.json, prints the table. Returns the
// exit code.
int train_and_report(const run::Experiment& experiment,
                     const std::function<train::RunDirectory()>& open_run,
                     const std::filesystem::path& checkpoint, bool as_json);

// Goes on with a run, which is locked: from the checkpoint that `from` names,
// the newest, or from nothing if it was killed before its first.
int resume_run(train::RunDirectory run, const run::Experiment& experiment,
               const std::string& from, bool as_json);

// The table and the audit, for people; or the numbers as JSON.
void print_result(const run::Experiment& experiment,
                  const nlohmann::json& result, bool as_json);

// What an explanation found, beside what print_result says.
void print_explanation(const nlohmann::json& numbers);

}  // namespace propagator::cli
