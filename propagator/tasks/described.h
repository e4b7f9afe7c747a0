#pragma once

#include <nlohmann/json.hpp>

namespace propagator::tasks {

// Of a surrogate of which there is more to know than its ports say: what who
// asks by hand needs to make up an input.
class Described {
 public:
  virtual ~Described() = default;

  virtual nlohmann::json details() const = 0;
};

}  // namespace propagator::tasks
