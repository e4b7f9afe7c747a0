#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "propagator/core/observer.h"
#include "propagator/run/experiment.h"
#include "propagator/train/checkpoint.h"
#include "propagator/train/run_directory.h"

namespace propagator::run {

using Change = std::function<void(config::Document&)>;

// How a run is opened.
struct OpenOptions {
  // A checkpoint of the run, by name or path; empty: the newest.
  std::string from = "";
  train::Weights weights = train::Weights::kBest;
  // An adapter.safetensors that was trained from this run; empty: none.
  std::string adapter = "";
  // Changes to the configuration that are of this session alone: where to
  // compute, how to test. UsageError for a key that made the weights.
  Change change = {};
  // Only what a page shows is read, where the task's data are on a disk.
  bool for_pages = false;
};

// A trained run as a value: it owns the configuration, the task and the model
// with its weights. It prints nothing, writes nothing into the run's folder,
// and leaves the process as it was when it is closed. `threads` of its
// configuration holds for the calls that work on it; `apply` computes with as
// many as the caller has.
//
//   const auto run = run::open("runs/quick");
//   const auto answer = run.apply({{"fields", first}, {"alpha", alpha}});
class Run {
 public:
  Run(const std::filesystem::path& folder, const OpenOptions& options);

  const train::RunDirectory& directory() const { return *directory_; }
  const Experiment& experiment() const { return *experiment_; }
  const Runtime& runtime() const { return runtime_; }
  torch::nn::Module& model() const { return *model_; }
  // "step-0000003000"
  const std::string& checkpoint() const { return checkpoint_; }

  // The model as a function in memory: what it takes, what it gives, and its
  // answers. From several threads at once.
  const tasks::Surrogate& surrogate() const { return *surrogate_; }
  tasks::NamedTensors apply(const tasks::NamedTensors& inputs) const {
    return surrogate_->apply(inputs);
  }

  // Makes or opens the task's data, for tests and pages: with the run's seed,
  // or with another one.
  void prepare_data(std::optional<int64_t> seed = std::nullopt) const;

 private:
  std::unique_ptr<train::RunDirectory> directory_;
  std::unique_ptr<Experiment> experiment_;
  Runtime runtime_;
  std::unique_ptr<RuntimeScope> scope_;
  std::string checkpoint_;
  std::shared_ptr<torch::nn::Module> model_;
  std::unique_ptr<tasks::Surrogate> surrogate_;
};

// FileError if there is no run, or none with weights yet; DataError if it is
// damaged.
inline Run open(const std::filesystem::path& folder,
                const OpenOptions& options = {}) {
  return {folder, options};
}

// A run's experiment with a change: only of keys whose role `may_change`. The
// others made its weights and its split into training and test; ConfigError.
std::unique_ptr<Experiment> changed_experiment(
    config::Document document, const Change& change,
    bool (*may_change)(config::Role));

// Gives the model a checkpoint's weights, less what older programs counted
// among them. DataError names `source`.
void set_weights(const tasks::Task& task, torch::nn::Module& model,
                 train::NamedTensors weights, const std::string& source);

// A run's newest checkpoint, or the one of its own that `from` names; `schema`
// is of the run's configuration.
std::filesystem::path choose_checkpoint(const train::RunDirectory& run,
                                        const config::Schema& schema,
                                        const std::string& from);

// Returns what `work` does; if memory runs short, a DeviceError whose hint
// names the keys that the experiment has for that.
void rethrow_with_memory_hint(const Experiment& experiment,
                              const std::exception& error);
template <class Work>
auto with_memory_hint(const Experiment& experiment, Work&& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    rethrow_with_memory_hint(experiment, error);
    throw;
  }
}

}  // namespace propagator::run
