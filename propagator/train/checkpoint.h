#pragma once

#include <torch/nn/module.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "propagator/data/safetensors.h"
#include "propagator/train/trainable.h"

namespace propagator::train {

// Everything a run needs to go on to the same bits. On disk a directory,
// written beside and renamed into place:
//   model.safetensors      weights after the last step
//   best.safetensors       weights of the best validation so far
//   optimizer.safetensors  moments, what a method over all cases keeps,
//                          the task's state
//   state.json             step, epoch, schedule position, best, times
//   config.yaml            the run's configuration
//   adapter.safetensors    of a fine-tuning: what it trained, at its best, and
//                          nothing else
//   SHA256SUMS             of all of them; `sha256sum -c` checks it too
struct Checkpoint {
  NamedTensors model, best, optimizer;
  data::Safetensors adapter = {};  // without tensors: none
  nlohmann::json state;
  std::string config;
};

void save_checkpoint(const std::filesystem::path& directory,
                     const Checkpoint& checkpoint);
// DataError if a file is missing, cut, changed, or not what it should be.
Checkpoint load_checkpoint(const std::filesystem::path& directory);

// Only the configuration, or the state.
std::string load_config(const std::filesystem::path& directory);
nlohmann::json load_state(const std::filesystem::path& directory);

// What has trained until this state: a `computed_by` of each, an empty one for
// an older program, which did not say.
inline constexpr const char* kTrainedBy = "trained_by";
nlohmann::json trained_by(const nlohmann::json& state);

// Only the weights, after the last step or of the best validation, for those
// who use the model and do not train on.
enum class Weights { kBest, kLast };
NamedTensors load_weights(const std::filesystem::path& directory,
                          Weights which);

// The directory of step `step` under `folder`, and those that exist, in order.
std::filesystem::path checkpoint_path(const std::filesystem::path& folder,
                                      int64_t step);
bool is_checkpoint_name(const std::string& name);
std::vector<std::filesystem::path> list_checkpoints(
    const std::filesystem::path& folder);

// The parameters of a module by name, as copies; and back into the module.
// DataError names the first tensor that is missing, unknown or misshapen.
NamedTensors copy_parameters(const torch::nn::Module& module);
void set_parameters(torch::nn::Module& module, const NamedTensors& values,
                    const std::string& source);
// The shapes of those alone that data decide (nn/data_shaped.h), for a trainer
// that is made before the values are set.
void take_shapes(torch::nn::Module& module, const NamedTensors& values);

}  // namespace propagator::train
