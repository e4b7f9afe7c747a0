#pragma once

#include <filesystem>
#include <string>

#include "propagator/run/experiment.h"
#include "propagator/train/checkpoint.h"

namespace propagator::run {

// The weights that a fine-tuning begins from.
struct Base {
  std::string source;  // a folder or a file
  std::string model;   // its model.name; empty if nobody says
  train::NamedTensors weights;
};

// What tune.from names: the best weights of a run's newest checkpoint, those of
// a checkpoint, or a file of weights. ConfigError, with its place, if there is
// none, or if it is of another task.
Base read_base(const Experiment& experiment);

// The same, compared with the model that the configuration makes, as far as
// that is known before there are data. ConfigError as of `begin_from`, and of a
// pattern that matches nothing.
Base read_fitting_base(const Experiment& experiment);

// Gives them to a new model that has already taken what it needs of its data.
// What a fine-tuning adds stays; a model that answers from data keeps its own.
// ConfigError names the first parameter that differs.
void begin_from(const Base& base, const Experiment& experiment,
                torch::nn::Module& model);

// A name for weights, so that nothing is added to others.
std::string hash_of(const train::NamedTensors& weights);
// What adapter.safetensors says of the base.
std::map<std::string, std::string> description_of(const Base& base);

// The weights of a run with an adapter on them; the model gets the parts that
// it needs. DataError if the file is no adapter, or that of another model.
train::NamedTensors weights_with_adapter(torch::nn::Module& model,
                                         const train::NamedTensors& weights,
                                         const std::filesystem::path& file);

}  // namespace propagator::run
