#pragma once

#include <torch/types.h>

#include <vector>

#include "propagator/core/config.h"

namespace propagator::tasks {

// What may be done to a field of numbers without a direction so that it is
// still one of its kind: nothing, mirror it along each axis, or swap its axes
// too.
enum class FieldSymmetry { kNone, kMirrors, kSquare };

// The same fields as seen from all sides.
class SymmetricViews {
 public:
  // On a grid of so many nodes along each axis, equal ones for kSquare.
  SymmetricViews(FieldSymmetry symmetry, const std::vector<int64_t>& nodes,
                 const torch::Device& device);

  int64_t count() const { return views_.size(0); }
  // Frames (B, T, nodes…, C) of case b from side which[b] (B) of all, counted
  // on and on. Works without the host.
  torch::Tensor of(const torch::Tensor& frames,
                   const torch::Tensor& which) const;

 private:
  torch::Tensor views_;  // (count, nodes): which node each one shows
};

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::FieldSymmetry> {
  using enum tasks::FieldSymmetry;
  static constexpr std::pair<tasks::FieldSymmetry, const char*> all[] = {
      {kNone, "none"}, {kMirrors, "mirrors"}, {kSquare, "square"}};
};

}  // namespace propagator::config
