#pragma once

#include <torch/types.h>

#include "propagator/physics/detector/detector.h"

namespace propagator::physics {

// Flashes in a detector and what its sensors report, on the CPU in float64.
struct Events {
  torch::Tensor vertices;  // (N, 3) m
  torch::Tensor offsets;   // (N) ns, the times of the flashes; 0 if known
  torch::Tensor times;     // (N, S) ns, offset included; 0 where not hit
  torch::Tensor hits;      // (N, S) bool
  // Flashes that were drawn for these N, those below the trigger included.
  int64_t drawn = 0;
  // (N, S) photoelectrons, 0 where not hit; undefined if the detector reports
  // none.
  torch::Tensor charges = {};

  int64_t size() const { return vertices.size(0); }
  // The fraction of flashes that reach the trigger.
  double triggered() const {
    return static_cast<double>(size()) / static_cast<double>(drawn);
  }
};

// Events [begin, begin + count) of the ensemble that `seed` names. Event n is
// the same whatever begin, count and the number of threads are. A flash below
// the trigger is replaced by a new one, vertex included. Jitter, an unknown
// event time and charges leave vertices and hits as they are. NumericalError if
// 100 000 flashes in a row do not reach the trigger.
Events draw_events(const Detector& detector, int64_t seed, int64_t begin,
                   int64_t count);

}  // namespace propagator::physics
