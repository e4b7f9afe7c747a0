#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "propagator/physics/detector/light_events.h"

namespace propagator::tasks {

// Hits of events, one row for each hit under the names event, sensor and time:
// any whole number that tells events apart, a sensor from 1 to S, and
// nanoseconds.
struct EventTable {
  torch::Tensor names;  // (N) int64, events as they come
  torch::Tensor times;  // (N, S) ns, 0 where not hit; float64
  torch::Tensor hits;   // (N, S) bool

  int64_t size() const { return names.size(0); }
};

// From rows (hits, 3) of event, sensor and time. UsageError, with the row, if a
// number is not finite, an event or a sensor is no whole number, a sensor is
// not one of the detector's or comes twice in an event, a time is negative, or
// an event has fewer hits than the trigger.
EventTable make_events(const torch::Tensor& rows, int64_t sensors,
                       int64_t trigger);

// Sensors' positions (S, 3) in m, from a file with the names x, y and z.
torch::Tensor read_sensors(const std::filesystem::path& path);

}  // namespace propagator::tasks
