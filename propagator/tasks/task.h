#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/core/device.h"
#include "propagator/core/unused_option.h"
#include "propagator/nn/init.h"
#include "propagator/tasks/evaluation.h"
#include "propagator/tasks/surrogate.h"
#include "propagator/train/trainable.h"

namespace propagator::tasks {

struct SimulatedFile {
  std::string path, simulator;
  std::vector<std::string> settings;  // each: KEY=VALUE, as after -s
};
// ConfigError under SECTION.simulator or SECTION.file unless there is such a
// simulator and a file to keep what it computes, as `example`.
void expect_simulated(const SimulatedFile& file, const std::string& section,
                      const std::string& example);

// A task is the data, the loss and the test that a model is made for, and what
// of all that a configuration may choose. A task that can do more implements
// Drawing (drawing.h), Explainable (explainable.h) or DataWriter too.
class Task : public train::Trainable {
 public:
  // The task's part of the configuration, the model's options included.
  virtual void describe(config::Schema& schema) = 0;
  // What training is like for this task unless the configuration says
  // otherwise: keys of other sections and their values.
  virtual std::map<std::string, std::string> defaults() const { return {}; }
  // ConfigError if fields contradict one another.
  virtual void validate() = 0;
  // Its own keys that are without effect. After validate.
  virtual std::vector<config::UnusedOption> unused_options() const {
    return {};
  }
  // What a configuration means to the task, in lines for `check`; ConfigError
  // if it cannot be meant. After validate.
  virtual std::vector<std::string> inspect() { return {}; }
  // "honest", or "published" where a paper's flaw is reproduced.
  virtual std::string mode() const { return "honest"; }

  // A new model, on the CPU in float32, not yet initialised. After validate.
  virtual std::shared_ptr<torch::nn::Module> make_model() const = 0;
  // Gives it the weights that training begins with.
  virtual void initialise(torch::nn::Module& model, int64_t seed) const {
    nn::initialise(model, seed);
  }

  // Tensors in the model files of older programs that are the model's no more.
  virtual std::vector<std::string> former_parameters() const { return {}; }

  // Files of its data that a simulator makes where they are not there yet.
  virtual std::vector<SimulatedFile> simulated_files() const { return {}; }
  // Makes or opens the data, which training and tests need.
  virtual void prepare(int64_t seed, const Runtime& runtime) = 0;
  // Gives a new model what it takes from the training data before it learns.
  virtual void calibrate(torch::nn::Module&) {}

  // The names of the metrics that its test may have; none where they depend on
  // data that are not there yet. After validate.
  virtual std::vector<std::string> metric_names() const { return {}; }
  // Keys of training, by their beginnings, that say nothing of its model: what
  // a configuration has inherited of them was meant for another.
  virtual std::vector<std::string> foreign_keys() const { return {}; }

  // Whether another seed makes other data to test on.
  virtual bool draws_test() const { return false; }
  virtual Evaluation evaluate(torch::nn::Module& model, data::Split split) = 0;
  // The model as a function, which works without the task and its data; the
  // model is in its place in the runtime, and nobody trains it any more.
  virtual std::unique_ptr<Surrogate> surrogate(
      std::shared_ptr<torch::nn::Module> model,
      const Runtime& runtime) const = 0;
};

// Of a task whose data can be written to a file, to be read again as its
// `data.file`.
class DataWriter {
 public:
  virtual ~DataWriter() = default;
  // Returns what was written, in words. UsageError if it cannot be.
  virtual std::string write_data(const std::string& path, int64_t seed,
                                 const Runtime& runtime,
                                 const std::string& note) const = 0;
};

}  // namespace propagator::tasks
