#pragma once

#include <string>
#include <vector>

namespace propagator::models {

// Options of a network that knows whole fields like the one that is asked for,
// from a file.
class UsesSnapshots {
 public:
  virtual ~UsesSnapshots() = default;

  // The file, and what computes it where it is not there yet: nothing without a
  // simulator.
  struct Source {
    std::string file, simulator;
    std::vector<std::string> simulation;  // each: KEY=VALUE, as after -s
  };
  virtual Source snapshots() const = 0;
};

}  // namespace propagator::models
