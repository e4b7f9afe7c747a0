#pragma once

#include <nlohmann/json.hpp>

#include "propagator/run/run.h"

namespace propagator::explain {
struct LearnedStep;
}

namespace propagator::run {

// A test of a model and where it comes from.
struct TestResult {
  tasks::Evaluation evaluation;
  nlohmann::json audit;  // of leaks; null where the task has none to look for
  // As result.json has it: evaluation, audit, configuration, code, machine,
  // precision, and what the training says of itself.
  nlohmann::json record;
  // What judge_step has computed, for the page of the same test.
  std::shared_ptr<const explain::LearnedStep> step = nullptr;

  // A run that calls itself honest and is not has failed, whatever its numbers.
  bool leaks_though_honest() const;
  std::string text() const { return record.dump(2) + "\n"; }
};

// Tests a model on a split and audits it for leaks. The task's data must be
// prepared.
TestResult test_model(const Experiment& experiment, torch::nn::Module& model,
                      const Runtime& runtime, data::Split split);

// Compares the step that a forecast of fields has learned with the true one,
// where that is known: two metrics more, and `learned_step` in the record.
void judge_step(const Experiment& experiment, torch::nn::Module& model,
                const Runtime& runtime, TestResult& result);

// The test of an opened run. While its training is not finished, the record
// says so in `unfinished`, at which step.
TestResult test_run(const Run& run, data::Split split);

// What became of the training where that must be said; else empty.
std::string verdict(const TestResult& result);

// What a run's result.json says; nothing while there is none. DataError if it
// is damaged; of an older program, which did not store its table, the model is
// tested again, opened as `options` say.
std::optional<TestResult> read_result(const train::RunDirectory& run,
                                      const OpenOptions& options = {});

}  // namespace propagator::run
