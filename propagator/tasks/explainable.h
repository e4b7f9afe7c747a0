#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "propagator/report/field_series.h"
#include "propagator/tasks/surrogate.h"

namespace propagator::tasks {

// What a leak audit needs of a model that continues a sequence of inputs.
struct AuditSubject {
  torch::Tensor inputs;  // (B, T, …), whole cases of the test
  int64_t visible = 0;   // inputs from here on must not decide any answer
  // A way in which answers come about, as they do outside the audit: the same
  // code, in the same precision. It is handed whole cases.
  struct Path {
    std::string name;
    std::function<NamedTensors(const torch::Tensor& inputs)> answer;
  };
  std::vector<Path> paths = {};
  // For pictures: all outputs at once, as in training, where output i must not
  // depend on inputs first_hidden(i) and later.
  std::function<torch::Tensor(const torch::Tensor&)> forward = {};
  std::function<int64_t(int64_t)> first_hidden = {};
};

// What it takes to compare the propagator that a model has learned with the
// true one: both carry a first frame to the frames `times`.
struct PropagatorSubject {
  // (N, R, C) → (N, times, R, C)
  using Map = std::function<torch::Tensor(const torch::Tensor& states)>;
  Map model, truth;
  Map given;  // (N, R, C) → (N, 1, R, C), the last frame the model is given
  std::vector<int64_t> times;
  torch::Tensor state;     // (R, C), where the model is linearised
  torch::Tensor ensemble;  // (K, R, C), directions in which the data vary
  double work;             // floating-point operations of `model` for one state
  report::Axis x, y;
  std::string quantity;
};

// What it takes to look at one step of a model that forecasts fields, cell by
// cell.
struct StepSubject {
  using Map = std::function<torch::Tensor(const torch::Tensor&)>;
  // Windows (N, given, nodes…, C) → what follows them, (N, nodes…, C). It is
  // differentiable, and refers to the model.
  Map step;
  bool repeated = true;  // whether a forecast is this step, again and again
  // What the physics makes of changes (N, nodes…, C) of a frame until the next
  // one, in float64: linear and differentiable. Empty where it is not known.
  Map truth = {};
  std::string law = {};    // what that is, in words
  double truth_error = 0;  // relative L2 of the data's own frames against it
  torch::Tensor window;  // (given, nodes…, C), where the model is linearised
  torch::Tensor ensemble;  // (K, nodes…, C), directions in which the data vary
  double work = 0;  // floating-point operations of a step and its gradient
  std::vector<report::Axis> axes = {};
  std::vector<std::string> channels = {};
};

// Of a task whose models can be explained: what they depend on, and what they
// have learned.
class Explainable {
 public:
  virtual ~Explainable() = default;

  virtual std::optional<AuditSubject> audit_subject(torch::nn::Module&) {
    return std::nullopt;
  }
  virtual std::optional<PropagatorSubject> propagator_subject(
      torch::nn::Module&) {
    return std::nullopt;
  }
  virtual std::optional<StepSubject> step_subject(torch::nn::Module&) {
    return std::nullopt;
  }
};

}  // namespace propagator::tasks
