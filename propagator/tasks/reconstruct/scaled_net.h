#pragma once

#include <memory>

#include "propagator/models/field_net.h"

namespace propagator::tasks {

// A network whose answers are of the size of readings: y = shift + scale · N.
// Both begin as 0 and 1 and are taken from the readings before training; they
// are part of the model's file.
class ScaledNet : public models::FieldNet {
 public:
  ScaledNet(std::shared_ptr<models::FieldNet> network, int64_t outputs);

  autodiff::Jet forward(const autodiff::Jet& points) override;
  void initialise(int64_t seed) override { network_->initialise(seed); }
  void observe(const autodiff::Observations& read) override {
    network_->observe(read);
  }
  std::shared_ptr<void> hold() override { return network_->hold(); }
  // Both (outputs).
  void set(const torch::Tensor& shift, const torch::Tensor& scale);

 private:
  std::shared_ptr<models::FieldNet> network_;
  torch::Tensor shift_, scale_;
};

}  // namespace propagator::tasks
