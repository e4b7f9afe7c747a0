#pragma once

#include <string>

namespace propagator::config {

// A key that has no effect beside the others as they are set, or all keys that
// begin so.
struct UnusedOption {
  std::string key;
  std::string why;
};

}  // namespace propagator::config
