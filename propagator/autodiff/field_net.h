#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "propagator/autodiff/jet.h"

namespace propagator::autodiff {

// Where a field lives: D variables, each on an interval, and F fields. `time`
// is the variable along which a window's tokens follow one another, or -1.
struct FieldDomain {
  std::vector<double> low, high;
  int64_t fields = 1;
  int64_t time = -1;
  bool time_is_periodic = false;  // seen as a cosine, and a sine behind all
  // The last of `fields` are log variances of readings of these fields, in
  // units of each one's spread; mostly none are asked for.
  std::vector<int64_t> log_variances_of = {};
  // As the problem calls them; of the variables before any embedding.
  std::vector<std::string> variable_names = {}, field_names = {};

  int64_t variables() const { return static_cast<int64_t>(low.size()); }
};

// Readings (M, F) of fields at points (M, D), NaN where there is none, in units
// of each field's spread about its mean: a field is shift + scale · reading. Of
// fields that are never read both (F) may be 0 and 1, as they are of all if
// undefined.
struct Observations {
  torch::Tensor points, readings;
  torch::Tensor shift = {}, scale = {};
};

// A network that maps points to the values of fields there, with derivatives:
// jets of points (M; N, T, D) → jets of fields (M; N, T, F). T points make a
// window; a network whose tokens see each other answers for all of them. Every
// layer is written once, on jets; a plain forward is the jet of a constant.
class FieldNet : public torch::nn::Module {
 public:
  virtual autodiff::Jet forward(const autodiff::Jet& points) = 0;

  // (N, T, D) → (N, T, F). At points that ask for no gradient it can be
  // differentiated once.
  torch::Tensor values(const torch::Tensor& points) {
    const DifferentiatedOnce once(!points.requires_grad());
    return forward(autodiff::Jet::constant(points)).value();
  }
  // Sets the weights as the network's document does; by default Xavier's
  // uniform ones for matrices, 0.01 for biases, 1 and 0 for norms. Each
  // parameter has a random stream of its own.
  virtual void initialise(int64_t seed);

  // Takes what was read, before training; readings are in units of each
  // field's spread, about its mean. A network that does not answer from them
  // takes no notice.
  virtual void observe(const Observations&) {}
  // Parameters of the equations that are found beside the field, (K); undefined
  // if there are none.
  virtual torch::Tensor unknowns() const { return {}; }
  // While what it returns lives, that part of an answer which is the same for
  // all points is computed once. Parameters must not change meanwhile.
  virtual std::shared_ptr<void> hold() { return nullptr; }
};

// The field network that a task's module is.
inline FieldNet& as_field_net(torch::nn::Module& model) {
  return dynamic_cast<FieldNet&>(model);
}

}  // namespace propagator::autodiff
