#pragma once

#include <torch/nn/module.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "propagator/data/split.h"

namespace propagator::train {

using NamedTensors = std::map<std::string, torch::Tensor>;

// One named part of a loss. `value` is a scalar without gradient.
struct LossTerm {
  std::string name;
  double weight;
  torch::Tensor value;
};

// In front of the name of a term that is no part of a loss but the weight of
// one, where it changes in training.
inline constexpr std::string_view kWeightOf = "weight of ";
// A term that begins so is a number that is found beside the model.
inline constexpr std::string_view kValueOf = "value of ";

// What training descends on, and the terms it is made of: their names reach
// the progress line, the metrics and the plots.
struct Loss {
  torch::Tensor total;  // scalar with gradient
  std::vector<LossTerm> terms;
};

// A loss as the sum of squares r·r of residuals r (R), and their derivatives by
// all numbers of a flat buffer of parameters, (n, R), if they were asked for.
struct LeastSquares {
  torch::Tensor residuals, jacobian = {};
};

// Where a training stands after a validation, in the stage that it is in.
struct Standing {
  double first = 0, best = 0;  // validation loss of the stage
  double done = 0;             // share of the whole training, 0 … 1
  double stage = 0;            // share that went into the stage
  double full = 0;             // and into its steps behind the first ones
  bool stopped = false;        // the optimiser has come to an end
};

// All that the trainer knows of what it trains for: how many cases there are,
// the loss of some of them, and what changes as training goes on.
class Trainable {
 public:
  virtual ~Trainable() = default;

  virtual int64_t size(data::Split split) const = 0;
  // `positions` (B) in the split, int64, on the CPU or with the data.
  virtual Loss loss(torch::nn::Module& model, data::Split split,
                    const torch::Tensor& positions) = 0;
  // The loss of all training cases as a sum of squares, with the Jacobian by
  // `flat` where that is not null: the model's parameters are views of it.
  // ConfigError of a loss, or a model, that has none.
  virtual LeastSquares least_squares(torch::nn::Module& model,
                                     const torch::Tensor* flat);
  // Says which positions of training the next step will ask `loss` for, where
  // it is not on the device: what has to be read can be, meanwhile.
  virtual void expect(const torch::Tensor& /*positions*/) {}
  // Whether `loss` works from the device's memory alone when it is given
  // positions there: nothing is copied from or to the host.
  virtual bool data_on_device() const { return false; }

  // What is learned beside the model's parameters, such as weights of the
  // loss, in the model's type and on its device; part of no model file.
  virtual NamedTensors learned() const { return {}; }

  // Called before each training step: where the loss changes as training goes
  // on (new points, other weights), here it does, in place. What it has made
  // of the data is its state, which a checkpoint holds.
  virtual void begin_step(torch::nn::Module&, int64_t /*step*/) {}
  // Called before the loss of each slice of a batch that is cut into several
  // (slices.h): what is drawn by neither case nor step is drawn for the slice.
  virtual void begin_slice(int64_t /*slice*/) {}
  // Whether what is trained, or the loss, now becomes another one: training
  // then goes on from the best weights of the stage that ends, as
  // `begin_stage` changes them, with the optimiser at its beginning. That says
  // whether they are new ones, which steps of Adam come first with.
  virtual bool ends_stage(const Standing&) { return false; }
  virtual bool begin_stage(torch::nn::Module&) { return false; }
  virtual NamedTensors state() const { return {}; }
  virtual void restore(const NamedTensors&) {}
};

}  // namespace propagator::train
