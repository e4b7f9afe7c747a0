#pragma once

#include <memory>
#include <span>

#include "propagator/train/optimizer.h"
#include "propagator/train/step_graph.h"
#include "propagator/train/task.h"

namespace propagator::train {

// A loss and its terms in float64, (1 + terms), where they were computed, and
// the terms' names.
torch::Tensor values_of(const Loss& loss, std::vector<std::string>& names);

struct StepOptions {
  int64_t batch = 4;
  int64_t accumulate = 1;
  double clip = 0;
  OptimizerOptions optimizer;
};

// One training step: batch → loss terms → gradients → clipped update. It reads
// nothing back from the device, so that on CUDA, with the data in the device's
// memory, it is captured as a graph and replayed: one launch instead of
// hundreds.
class Step {
 public:
  Step(Task& task, std::shared_ptr<torch::nn::Module> model,
       const StepOptions& options, const Runtime& runtime);

  // `positions`: batch · accumulate of the training split.
  void run(std::span<const int64_t> positions, double lr);

  // What the last step measured. On a GPU this waits for it.
  struct Record {
    double loss = 0;
    std::vector<std::pair<std::string, double>> terms;
    double gradient_norm = 0;

    // Of what values_of gave, on the host.
    static Record of(const torch::Tensor& values,
                     const std::vector<std::string>& names, double norm);
  };
  Record read() const;

  Optimizer& optimizer() { return optimizer_; }
  FlatParameters& parameters() { return parameters_; }
  bool is_graph() const { return graph_ != nullptr; }

 private:
  void enqueue();

  Task& task_;
  std::shared_ptr<torch::nn::Module> model_;
  StepOptions options_;
  Runtime runtime_;
  FlatParameters parameters_;
  Optimizer optimizer_;
  torch::Tensor positions_;  // (accumulate, batch), where the data are
  std::vector<std::string> names_;
  torch::Tensor record_;  // loss, terms, gradient norm, in float64
  std::unique_ptr<StepGraph> graph_;
};

}  // namespace propagator::train
