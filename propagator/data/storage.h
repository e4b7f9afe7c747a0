#pragma once

#include "propagator/core/config.h"

namespace propagator::data {

// Where the numbers of a data set live: all in the memory of the device that
// uses them, or in their file, each batch read or made when it is used.
enum class Storage { kAuto, kMemory, kStream };

}  // namespace propagator::data

namespace propagator::config {

template <>
struct Names<data::Storage> {
  using enum data::Storage;
  static constexpr std::pair<data::Storage, const char*> all[] = {
      {kAuto, "auto"}, {kMemory, "memory"}, {kStream, "stream"}};
};

}  // namespace propagator::config
