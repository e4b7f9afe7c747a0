#pragma once

#include <memory>

#include "propagator/models/field_net.h"
#include "propagator/nn/unit_axes.h"

namespace propagator::tasks {

// The logarithms of the variances of readings of K fields, from a small network
// of its own: shape(p) + level. Nothing of what it learns moves the fields, and
// it is too small to know single sensors. The shape is that of readings that
// trained the fields; the level makes intervals hold as many as they should of
// those that did not.
class SpreadNet : public models::FieldNet {
 public:
  // `domain.fields` is K.
  explicit SpreadNet(const models::FieldDomain& domain);

  autodiff::Jet forward(const autodiff::Jet& points) override;
  void initialise(int64_t seed) override { shape_->initialise(seed); }

  // Of log σ² (…, K) that `forward` gave: what the shape says by itself.
  torch::Tensor shape_of(const torch::Tensor& logs) const {
    return logs - level_;
  }
  // In place, of those fields where it is finite.
  void set_level(const torch::Tensor& level);

 private:
  nn::UnitAxes axes_;
  std::shared_ptr<models::FieldNet> shape_;
  torch::Tensor level_;  // (K), not trained
};

}  // namespace propagator::tasks
