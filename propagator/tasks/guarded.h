#pragma once

#include <optional>
#include <string>

#include "propagator/tasks/surrogate.h"

namespace propagator::tasks {

// How far an answer may be trusted.
struct Guard {
  // What of the inputs is outside of the range of the training data, in words;
  // empty: nothing is. None where that range is not known.
  std::optional<std::string> outside;
  // What the answer leaves of the task's equation, a root mean square. None
  // where the task has no equation.
  std::optional<double> residual;
};

// Of a surrogate that can say it.
class Guarded {
 public:
  virtual ~Guarded() = default;

  // `answers` are its own, to these inputs. From several threads at once.
  virtual Guard guard(const NamedTensors& inputs,
                      const NamedTensors& answers) const = 0;
};

}  // namespace propagator::tasks
