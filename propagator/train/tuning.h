#pragma once

#include <torch/nn/module.h>

#include <map>
#include <string>
#include <vector>

#include "propagator/data/safetensors.h"
#include "propagator/train/low_rank.h"
#include "propagator/train/tune_options.h"

namespace propagator::train {

// A fine-tuning of a model: which of its parameters are trained, and how. The
// others are frozen, which means that they require no gradient: autograd and
// kernels leave out the work for them, and no optimiser has a moment of them.
class Tuning {
 public:
  // Freezes what is not trained. The model has the weights to begin from, in
  // the memory where they stay, or gets those of a checkpoint by `restore`.
  // ConfigError if a pattern matches nothing, or nothing is left to train.
  Tuning(const TuneOptions& options, torch::nn::Module& model, int64_t seed);

  const TuneOptions& options() const { return options_; }
  LowRank& low_rank() { return low_rank_; }
  const LowRank& low_rank() const { return low_rank_; }
  // The numbers that are trained.
  int64_t parameters() const;

  // What was trained and nothing else, as copies on the CPU: factors of
  // changes and whole parameters by name; and units that are not the base's.
  NamedTensors adapter() const;
  // What a file says beside them: the method and its sizes, and the base.
  std::map<std::string, std::string> metadata() const;
  // What the model was before: names and values for `metadata`.
  void describe_base(std::map<std::string, std::string> base);

  // For a checkpoint: the last factors, and what they are added to.
  NamedTensors state() const;
  // DataError if the checkpoint is not of such a fine-tuning.
  void restore(const NamedTensors& state, const data::Safetensors& adapter);

  // Every parameter requires a gradient again that did before.
  void release();

 private:
  TuneOptions options_;
  std::vector<std::pair<std::string, torch::Tensor>> trained_;  // whole ones
  std::vector<torch::Tensor> frozen_;
  std::vector<std::pair<std::string, torch::Tensor>> units_;  // of the data
  LowRank low_rank_;
  std::map<std::string, std::string> base_;
};

// Adds the parts that the method trains, if it has such and the model has not
// got them already. UsageError if the model has no place for them.
void add_parts(const TuneOptions& options, torch::nn::Module& model);

// The method of an adapter's file, as its metadata say it. DataError if they
// are not of one of ours.
TuneOptions method_of(const data::Safetensors& adapter);
// The weights of a model with an adapter: changes are added, whole parameters
// replaced.
NamedTensors with_adapter(NamedTensors weights,
                          const data::Safetensors& adapter);

// The parameters of the layer that makes a model's answer (nn/last_layer.h).
std::vector<std::string> last_layer_of(const torch::nn::Module& model);

}  // namespace propagator::train
