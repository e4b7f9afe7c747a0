#pragma once

#include <array>
#include <span>

#include "propagator/physics/detector/event_objective.h"

namespace propagator::physics {

// The points that fit the hits `which` exactly: n of them, 3 if the event's
// time is known and 4 if not, as many as unknowns. With w = |x|² - b² the
// equations |x - s| = path - b become linear,
//   -2 s·x + 2 path·b + w = path² - |s|²    (b = 0 if the time is known),
// n equations for n + 1 unknowns: a line, which w's definition cuts twice.
// Returns how many there are, at most 2; squares bring in points for which
// path - b is negative.
int exact_vertices(const EventView& event, std::span<const int64_t> which,
                   std::array<Unknowns, 2>& solutions);

}  // namespace propagator::physics
