#pragma once

#include <array>
#include <cstdint>

#include "propagator/physics/detector/detector_volume.h"

namespace propagator::physics {

// The unknowns of an event in metres: its vertex and, where its time is
// unknown, the path that light goes in that time.
using Unknowns = std::array<double, 4>;
using Square = std::array<Unknowns, 4>;

// A function of the first `unknowns` of these numbers.
class EventObjective {
 public:
  virtual ~EventObjective() = default;

  virtual double value(const Unknowns& at) const = 0;
  // Also the gradient and the second derivatives, exact or approximate (Gauss–
  // Newton); whole matrix.
  virtual double derivatives(const Unknowns& at, Unknowns& gradient,
                             Square& second) const = 0;
};

// Where the unknowns may be: the vertex in the volume, the path on [0, most].
struct Bounds {
  const DetectorVolume& volume;
  double most_path;
  int unknowns;  // 3 or 4
};

// The nearest unknowns within the bounds.
Unknowns confine(const Bounds& bounds, const Unknowns& at);

struct Minimum {
  Unknowns at{};
  double value = 0;
  bool converged = false;
};

// A local minimum within the bounds, from a start within them, by Newton's
// method with Levenberg's damping; on a wall that the descent runs against it
// moves along the wall. It has converged if a step is shorter than `tolerance`
// (m) or promises less than rounding shows.
Minimum minimise(const EventObjective& f, const Bounds& bounds,
                 const Unknowns& start, int64_t max_iterations,
                 double tolerance);

// The inverse of the leading n × n part; false if it is not positive definite.
bool invert(const Square& matrix, int n, Square& inverse);

}  // namespace propagator::physics
