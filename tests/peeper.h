#pragma once

#include "propagator/models/forecaster.h"

namespace propagator::testing {

// A forecaster that calls itself honest, is given a view of the visible frames
// and reads past its end, as a kernel with wrong strides would: its answer is
// the truth, times a number that starts at one.
class Peeper : public models::Forecaster {
 public:
  Peeper(const models::FieldShape& shape, int64_t visible, bool autoregressive)
      : shape_(shape),
        visible_(visible),
        autoregressive_(autoregressive),
        scale_(register_parameter("scale", torch::ones({1}))) {}
  torch::Tensor forward(const torch::Tensor& first,
                        const torch::Tensor&) override {
    return scale_ * whole(first);
  }
  torch::Tensor predict(const torch::Tensor& first, const torch::Tensor&,
                        const std::function<void(int64_t)>&) override {
    return scale_ * whole(first);
  }
  int64_t visible() const override { return visible_; }
  bool autoregressive() const override { return autoregressive_; }
  int64_t first_hidden(int64_t) const override { return visible_; }

 private:
  torch::Tensor whole(const torch::Tensor& first) const {
    return first
        .as_strided({first.size(0), shape_.frames, shape_.rows, shape_.cols},
                    first.strides(), first.storage_offset())
        .clone();
  }

  models::FieldShape shape_;
  int64_t visible_;
  bool autoregressive_;
  torch::Tensor scale_;
};

}  // namespace propagator::testing
