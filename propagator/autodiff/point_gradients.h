#pragma once

#include <torch/types.h>

#include <vector>

#include "propagator/kernels/jet/jet_mlp.h"

namespace propagator::autodiff {

// While one lives on a thread, networks note how points pass through their
// layers (mlp.h), so that residuals of which each depends on its own point
// alone have all their gradients by the parameters, one for each point, from
// one backward pass: with z = W h + b the gradient by W at a point is the sum
// of ∂r/∂z hᵀ over the rows of the jet.
class PointGradients {
 public:
  PointGradients();
  ~PointGradients();
  PointGradients(const PointGradients&) = delete;
  PointGradients& operator=(const PointGradients&) = delete;

  // Adds factor · ∂r_n/∂θ to column n of `into`, (numbers of `flat`, N), for
  // `residuals` with N numbers; θ are views of `flat`. What passed may be at
  // k N points, of which residual n depends on the points n, N + n, …
  // UsageError if a parameter that takes part is not among `flat`.
  void add(const torch::Tensor& residuals, double factor,
           const torch::Tensor& flat, torch::Tensor into) const;

  // Whether any network passed: else nothing is known of the gradients.
  bool any() const { return !layers_.empty() || !networks_.empty(); }
  void forget();

  // One linear layer, rows (M; …, in) → (M; …, out), of scale · weight.
  struct Layer {
    torch::Tensor in, out, weight, bias;
    double scale = 1;
  };
  // A whole network through its kernel.
  struct Network {
    torch::Tensor in, out;
    kernels::JetMlp net;
  };
  static void note_layer(Layer layer);
  static void note_network(Network network);
  // Numbers (K) that all points of a shape share, made of some of `parameters`:
  // while one lives, a copy for each point, (…, K), so that residuals have
  // gradients by them too; else the numbers.
  static torch::Tensor at_each_point(
      const torch::Tensor& numbers,
      const std::vector<torch::Tensor>& parameters, torch::IntArrayRef shape);

 private:
  struct Shared {
    torch::Tensor numbers, copies;
    std::vector<torch::Tensor> parameters;
  };
  // For the gradients (…, K) by the copies.
  static void add_shared(const Shared& shared, const torch::Tensor& gradients,
                         int64_t points, const torch::Tensor& flat,
                         torch::Tensor into);

  PointGradients* before_;
  std::vector<Layer> layers_;
  std::vector<Network> networks_;
  std::vector<Shared> shared_;
};

}  // namespace propagator::autodiff
