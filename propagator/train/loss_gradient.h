#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "propagator/core/device_graph.h"
#include "propagator/train/flat_parameters.h"
#include "propagator/train/slice_draws.h"
#include "propagator/train/slices.h"
#include "propagator/train/trainable.h"

namespace propagator::train {

// A loss and its terms as numbers on the host.
struct LossValues {
  double total = 0;
  std::vector<std::pair<std::string, double>> terms;
};

// The positions 0 … size - 1 in parts of `batch`, the last of them shorter;
// `batch` 0: in one.
Parts parts_of(int64_t size, int64_t batch,
               const torch::TensorOptions& options);

// The loss of cases of a split and its terms, means over all of `parts` (one
// after the other, so that memory does not limit their number): (1 + terms) in
// float64, where they were computed. Ranks share the parts out among
// themselves. `names` becomes those of the terms, unless there are more ranks
// than parts and this one has none; `done` is told the number of cases after
// each part.
torch::Tensor mean_loss(Trainable& task, torch::nn::Module& model,
                        data::Split split, const Parts& parts,
                        const Runtime& runtime, std::vector<std::string>& names,
                        const std::function<void(int64_t)>& done = {});

// `values` as mean_loss gives them.
LossValues read_values(const torch::Tensor& values,
                       const std::vector<std::string>& names);

// The loss of training cases and its gradient by all parameters: what every
// optimiser works with, whether its steps are of a batch or of all cases. It
// reads nothing back from the device, so that on CUDA, with the data in the
// device's memory, it is captured as a graph and replayed: one launch instead
// of hundreds. In more than one slice it is shared by all ranks, each of which
// then has all of it, and there is no graph.
class LossGradient {
 public:
  // `parts`: positions of training cases, where the data are. Who wants other
  // cases next time copies their positions into these tensors. ConfigError as
  // of slices_of.
  LossGradient(Trainable& task, std::shared_ptr<torch::nn::Module> model,
               FlatParameters& parameters, const Parts& parts, int64_t slices,
               const Runtime& runtime);

  // Sets the parameters' gradients. Returns the loss, still on the device.
  torch::Tensor evaluate();
  // What was last evaluated: (1 + terms), always in the same place.
  const torch::Tensor& values() const { return values_; }
  const std::vector<std::string>& names() const { return names_; }
  bool is_graph() const { return graph_ != nullptr; }
  // The loss is another one from now on, by more than what its tensors hold.
  void forget_graph();

  // Where the positions of cases belong.
  static torch::TensorOptions position_options(const Trainable& task,
                                               const Runtime& runtime);

 private:
  void enqueue();
  // Returns its part of the values, and sets the gradients to its part.
  torch::Tensor evaluate_slice(int64_t slice);
  torch::Tensor sum_slices();

  Trainable& task_;
  std::shared_ptr<torch::nn::Module> model_;
  FlatParameters& parameters_;
  std::vector<Parts> slices_;
  int64_t cases_;
  SliceDraws draws_;
  Runtime runtime_;
  std::vector<std::string> names_;
  torch::Tensor values_;
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace propagator::train
