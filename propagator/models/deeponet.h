#pragma once

#include <torch/nn/modules/linear.h>

#include "propagator/models/field_net.h"
#include "propagator/nn/data_shaped.h"
#include "propagator/nn/last_layer.h"
#include "propagator/nn/unit_axes.h"

namespace propagator::models {

enum class DeepOnetActivation { kTanh, kGelu };

struct DeepOnetOptions : FieldNetOptions {
  int64_t width = 64;
  int64_t layers = 3;
  int64_t branch_width = 64;
  int64_t branch_layers = 2;
  int64_t basis = 64;
  DeepOnetActivation activation = DeepOnetActivation::kTanh;

  void describe(config::Schema& schema) override;
  void validate(const FieldDomain&) const override {}
  bool windowed() const override { return false; }
  bool needs_readings() const override { return true; }
  std::shared_ptr<FieldNet> make(const FieldDomain& domain) const override;
};

// The deep operator network: what fixed sensors read, as one vector, through a
// branch network, and a point, on axes scaled to [-1, 1], through a trunk,
//   field_f(x) = Σ_k branch_fk · trunk_k(x) + bias_f,   k = 1 … K,
// with an activation behind the trunk's last layer too. The vector has the
// readings of all fields that were ever read, 0 where there is none, and a flag
// for each that says whether there is: I numbers. Branch layers (L' of width
// W') and trunk layers (L of width W) make
//   (I + 1) W' + (L' - 1) (W' + 1) W' + (W' + 1) K F
//   + (D + 1) W + (L - 1) (W + 1) W + (W + 1) K + F
// parameters. Derivatives go through the trunk as jets; the branch does not
// move with the points.
class DeepOnet : public FieldNet,
                 public nn::DataShaped,
                 public nn::HasLastLayer {
 public:
  DeepOnet(const DeepOnetOptions& options, const FieldDomain& domain);

  autodiff::Jet forward(const autodiff::Jet& points) override;
  void initialise(int64_t seed) override;
  // Another number of readings makes another network: its weights are drawn
  // again, from the seed of the last `initialise`.
  void observe(const autodiff::Observations& read) override;
  std::shared_ptr<void> hold() override;
  void take_shapes(const std::map<std::string, torch::Tensor>& tensors,
                   const std::string& prefix) override;
  // That of the branch, whose answers weigh the functions of the point.
  std::vector<std::string> last_layer() const override;

 private:
  // Makes room for so many branch inputs; false if there was.
  bool resize(int64_t inputs);
  torch::Tensor coefficients();  // (F, K), of the readings
  autodiff::Jet activated(const autodiff::Jet& x) const;

  DeepOnetOptions options_;
  int64_t fields_;
  int64_t seed_ = 0;
  std::vector<torch::nn::Linear> branch_, trunk_;
  torch::Tensor bias_;    // (F)
  torch::Tensor inputs_;  // (I), of the branch
  nn::UnitAxes axes_;
  torch::Tensor held_;
};

}  // namespace propagator::models

namespace propagator::config {

template <>
struct Names<models::DeepOnetActivation> {
  using enum models::DeepOnetActivation;
  static constexpr std::pair<models::DeepOnetActivation, const char*> all[] = {
      {kTanh, "tanh"}, {kGelu, "gelu"}};
};

}  // namespace propagator::config
