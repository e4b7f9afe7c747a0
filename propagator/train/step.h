#pragma once

#include <span>

#include "propagator/train/loss_gradient.h"
#include "propagator/train/optimizer.h"
#include "propagator/train/tuning.h"

namespace propagator::train {

struct StepOptions {
  int64_t batch = 4;
  int64_t accumulate = 1;
  double clip = 0;
  OptimizerOptions optimizer;
  int64_t slices = 1;
};

// What a step of training measured.
struct StepRecord {
  LossValues loss;
  double gradient_norm = 0;  // before clipping
};

// One step of a first-order optimiser: batch → loss and gradient → clipped
// update. On CUDA both halves are graphs.
class Step {
 public:
  // With a fine-tuning only what it trains.
  Step(Trainable& task, std::shared_ptr<torch::nn::Module> model,
       const StepOptions& options, const Runtime& runtime,
       Tuning* tuning = nullptr);

  // `positions`: batch · accumulate of the training split.
  void run(std::span<const int64_t> positions, double lr);

  // What is trained, or the loss, is another one from now on.
  void begin_stage() { gradient_.forget_graph(); }

  // Of the last step, over all its parts. On a GPU this waits for it.
  StepRecord read() const;

  Optimizer& optimizer() { return optimizer_; }
  FlatParameters& parameters() { return parameters_; }
  bool is_graph() const { return gradient_.is_graph(); }

 private:
  void update();

  StepOptions options_;
  FlatParameters parameters_;
  Optimizer optimizer_;
  torch::Tensor positions_;  // (accumulate, batch), where the data are
  LossGradient gradient_;
  torch::Tensor norm_;  // of the gradient, always in the same place
  std::unique_ptr<DeviceGraph> update_graph_;
};

}  // namespace propagator::train
