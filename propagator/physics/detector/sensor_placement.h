#pragma once

#include <cstdint>
#include <vector>

#include "propagator/physics/detector/detector_volume.h"

namespace propagator::physics {

// Places of light sensors on surfaces about the origin.

// The 8 corners (±half, ±half, ±half).
std::vector<Point> corner_sensors(double half);

// per_side × per_side on each of the cube's 6 faces, in the middles of equal
// squares.
std::vector<Point> face_sensors(double half, int64_t per_side);

// columns × rows on the plane at height z, in the middles of equal squares of
// side `spacing`.
std::vector<Point> plane_sensors(int64_t columns, int64_t rows, double spacing,
                                 double z);

// How many sensors cover an upright cylinder evenly, about `sensors` in all:
// with the spacing p = √(surface / sensors), height / p rings of π diameter / p
// on the barrel and (π diameter² / 4) / p² on each cap, rounded, at least 1.
struct CylinderCounts {
  int64_t rings, per_ring, per_cap;

  int64_t total() const { return rings * per_ring + 2 * per_cap; }
};
CylinderCounts cylinder_counts(double diameter, double height, int64_t sensors);

// These sensors: every other ring rotated by half a step, a sunflower spiral on
// each cap.
std::vector<Point> cylinder_sensors(double diameter, double height,
                                    int64_t sensors);

}  // namespace propagator::physics
