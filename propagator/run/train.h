#pragma once

#include "propagator/run/run.h"
#include "propagator/run/test.h"
#include "propagator/train/trainer.h"

namespace propagator::run {

// How a training ended.
struct Trained {
  std::filesystem::path folder;  // of the run
  train::StopReason reason = train::StopReason::kFinished;
  int64_t steps = 0, best_step = 0;
  double seconds = 0;              // of training, earlier sessions included
  nlohmann::json trained_by = {};  // code, machine, precision of each session
  nlohmann::json tuning = {};      // how it was fine-tuned; null if it was not
  nlohmann::json ranks = {};       // record_of_ranks
  // The rest only if it was not stopped before its end, on the first rank.
  std::optional<TestResult> result = {};
  nlohmann::json explanation = {};  // numbers of what the model has learned
  std::filesystem::path page = {};  // empty if none was asked for

  bool stopped() const {
    return reason == train::StopReason::kTimeLimit ||
           reason == train::StopReason::kRequest;
  }
};

// Where it trains. DeviceError if that cannot be.
Runtime runtime_for_training(const Experiment& experiment);

// Trains a new run in `folder`, tests its best weights and writes result.json
// and the page. The folder is made only when the data are good; UsageError if
// it exists and `force` is not given. Reports to the observer, which may ask
// it to stop; then a good checkpoint is left.
//
// Several ranks (core/ranks.h) train it together, to the same bits however many
// they are; the first one alone writes, and tests it.
Trained train(const Experiment& experiment, const std::filesystem::path& folder,
              bool force, Observer& observer);

// Goes on with a run from the checkpoint that `from` names, the newest, or
// from the start if it was killed before its first. What `change` sets holds
// for the run from now on; ConfigError for a key that a run keeps.
struct ResumeOptions {
  std::string from = "";
  Change change = {};
  std::optional<double> time_limit = {};  // s, of this session
};
Trained resume(const std::filesystem::path& folder,
               const ResumeOptions& options, Observer& observer);

}  // namespace propagator::run
