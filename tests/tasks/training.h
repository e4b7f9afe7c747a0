#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "propagator/run/experiment.h"
#include "propagator/train/trainer.h"

namespace propagator::testing {

inline const Runtime kDouble{torch::kCPU, Precision::kFloat64};

// A model of the experiment in float64, with data to evaluate it.
inline std::shared_ptr<torch::nn::Module> prepared_model(
    const run::Experiment& experiment) {
  experiment.task().prepare(0, kDouble);
  return experiment.make_model(kDouble);
}

// Trains the experiment in a new folder `run`, from the start or a checkpoint,
// and reads the checkpoint of that step.
inline train::Checkpoint trained_to(
    int64_t step, const run::Experiment& experiment, const Runtime& runtime,
    const std::filesystem::path& run,
    const std::optional<std::filesystem::path>& from) {
  experiment.task().prepare(0, runtime);
  train::Trainer trainer(experiment.task(), experiment.make_model(runtime),
                         experiment.train(), 0, runtime, experiment.yaml());
  if (from) trainer.restore(train::load_checkpoint(*from));
  auto directory = train::RunDirectory::create(run, false, "");
  trainer.run(directory);
  return train::load_checkpoint(
      train::checkpoint_path(run / "checkpoints", step));
}

}  // namespace propagator::testing
