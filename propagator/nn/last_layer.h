#pragma once

#include <string>
#include <vector>

namespace propagator::nn {

// A module that says which of its parts makes its answer, where that is not the
// last part with a matrix that it registers.
class HasLastLayer {
 public:
  virtual ~HasLastLayer() = default;
  // Names of its children and own parameters.
  virtual std::vector<std::string> last_layer() const = 0;
};

}  // namespace propagator::nn
