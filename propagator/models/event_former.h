#pragma once

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "propagator/models/locator.h"
#include "propagator/nn/set_encoder.h"

namespace propagator::models {

struct EventFormerOptions : LocatorOptions {
  bool positions = false;
  int64_t width = 32;
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t feed_forward = 64;
  double dropout = 0.1;

  void describe(config::Schema& schema) override;
  void validate(const DetectorShape& shape) const override;
  std::shared_ptr<Locator> make(const DetectorShape& shape) const override;
};

// The transformer of the detector lecture. Tokens of width C:
//   summary:   E_0
//   sensor s:  E_s + w t_s + b (+ W x_s + c with positions), s = 1 … S,
// E learned; times in ns and positions in m as they are. Sensors that were not
// hit are padding. A post-norm encoder, then a linear layer from the summary
// token to the place in m. The lecture leaves the unit of time open; in ns the
// numbers reach 87, in s the network would see none.
//
// It has (S + 1) C + 2 C + 3 C + 3 parameters and those of the layers, and with
// positions 4 C more.
class EventFormer : public Locator {
 public:
  EventFormer(const EventFormerOptions& options, const DetectorShape& shape);

  Located forward(const Hits& hits) override;
  // As the lecture's framework does: E normal, queries to values uniform on
  // Xavier's bound, biases of attention zero, the rest on ±1/√fan_in.
  void initialise(int64_t seed) override;

 private:
  int64_t sensors_;
  torch::nn::Embedding embedding_;
  torch::nn::Linear time_, position_{nullptr};
  nn::SetEncoder encoder_;
  torch::nn::Linear output_;
};

}  // namespace propagator::models
