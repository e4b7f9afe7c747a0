#pragma once

#include <torch/types.h>

#include <array>

namespace propagator::physics {

using Point = std::array<double, 3>;

// Where events happen: a box, or an upright cylinder (axis along z).
class DetectorVolume {
 public:
  static DetectorVolume box(const Point& centre, const Point& half);
  static DetectorVolume cylinder(double radius, double half_height);

  // Uniform in the volume for `u` uniform on the unit cube.
  Point at(const Point& u) const;
  // The walls count as inside.
  bool inside(const Point& point) const;
  torch::Tensor inside(const torch::Tensor& points) const;  // (N, 3) → (N) bool
  // The nearest point of the volume.
  Point confine(const Point& point) const;
  // The outward normals of the walls that the point touches, at right angles
  // to one another; returns how many.
  int walls(const Point& point, std::array<Point, 3>& normals) const;

  // This volume, if it holds all `points` (N, 3), or else the smallest box that
  // holds it and them.
  DetectorVolume holding(const torch::Tensor& points) const;

  const Point& centre() const { return centre_; }
  // From the centre to the walls along x, y and z.
  const Point& half() const { return half_; }
  bool round() const { return round_; }

 private:
  DetectorVolume(bool round, const Point& centre, const Point& half)
      : round_(round), centre_(centre), half_(half) {}

  bool round_;
  Point centre_, half_;
};

}  // namespace propagator::physics
