#pragma once

#include <torch/types.h>

#include <map>
#include <string>

namespace propagator::nn {

// A module with tensors whose shapes its data decide, such as the readings that
// it answers from.
class DataShaped {
 public:
  virtual ~DataShaped() = default;
  // Before weights are set: the tensors of a model's file, this module's under
  // names that begin with `prefix`. It takes their shapes; what cannot be is
  // left for the comparison of shapes to find. A tensor that has its shape
  // already stays where it is: an optimiser may have it as a view.
  virtual void take_shapes(const std::map<std::string, torch::Tensor>& tensors,
                           const std::string& prefix) = 0;
};

}  // namespace propagator::nn
