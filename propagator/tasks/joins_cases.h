#pragma once

namespace propagator::tasks {

// Marks a surrogate whose cases, along the first axis of all inputs and all
// answers, do not know of one another: those of several callers may be joined,
// computed together and taken apart again.
class JoinsCases {
 public:
  virtual ~JoinsCases() = default;
};

}  // namespace propagator::tasks
