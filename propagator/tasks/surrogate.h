#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "propagator/train/trainable.h"

namespace propagator::tasks {

using train::NamedTensors;

// A trained model as a function: named tensors in, named tensors out. It reads
// and writes no file, changes nothing that can be seen from outside, and may be
// called from several threads at once. It owns all that it needs.
class Surrogate {
 public:
  virtual ~Surrogate() = default;

  // A tensor that goes in or comes out. -1 stands for any length.
  struct Port {
    std::string name;
    std::vector<int64_t> shape;
    std::string meaning;
    // From where to where it was trained, if that is known.
    std::optional<std::pair<double, double>> range = {};
  };
  virtual std::vector<Port> inputs() const = 0;
  virtual std::vector<Port> outputs() const = 0;

  // Tensors of any floating type, on any device; the answers are on the CPU.
  // UsageError if one is missing, misshapen or not finite, NumericalError if
  // an answer is not.
  virtual NamedTensors apply(const NamedTensors& inputs) const = 0;
};

}  // namespace propagator::tasks
