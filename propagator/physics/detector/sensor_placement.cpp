#include "propagator/physics/detector/sensor_placement.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace propagator::physics {
namespace {

using std::numbers::pi;

int64_t rounded(double number) {
  return std::max<int64_t>(1, std::llround(number));
}

}  // namespace

std::vector<Point> corner_sensors(double half) {
  std::vector<Point> points;
  for (const double x : {-half, half}) {
    for (const double y : {-half, half}) {
      for (const double z : {-half, half}) points.push_back({x, y, z});
    }
  }
  return points;
}

std::vector<Point> face_sensors(double half, int64_t per_side) {
  std::vector<Point> points;
  const auto middle = [&](int64_t k) {
    return half *
           (static_cast<double>(2 * k + 1) / static_cast<double>(per_side) - 1);
  };
  for (int axis = 0; axis < 3; ++axis) {
    for (const double wall : {-half, half}) {
      for (int64_t j = 0; j < per_side; ++j) {
        for (int64_t i = 0; i < per_side; ++i) {
          Point point;
          point[axis] = wall;
          point[(axis + 1) % 3] = middle(j);
          point[(axis + 2) % 3] = middle(i);
          points.push_back(point);
        }
      }
    }
  }
  return points;
}

std::vector<Point> plane_sensors(int64_t columns, int64_t rows, double spacing,
                                 double z) {
  std::vector<Point> points;
  const auto middle = [&](int64_t k, int64_t count) {
    return spacing *
           (static_cast<double>(k) - static_cast<double>(count - 1) / 2);
  };
  for (int64_t j = 0; j < rows; ++j) {
    for (int64_t i = 0; i < columns; ++i) {
      points.push_back({middle(i, columns), middle(j, rows), z});
    }
  }
  return points;
}

CylinderCounts cylinder_counts(double diameter, double height,
                               int64_t sensors) {
  const double barrel = pi * diameter * height;
  const double cap = pi * diameter * diameter / 4;
  const double area = (barrel + 2 * cap) / static_cast<double>(sensors);
  return {rounded(height / std::sqrt(area)),
          rounded(pi * diameter / std::sqrt(area)), rounded(cap / area)};
}

std::vector<Point> cylinder_sensors(double diameter, double height,
                                    int64_t sensors) {
  const auto counts = cylinder_counts(diameter, height, sensors);
  const double radius = diameter / 2;
  std::vector<Point> points;
  for (int64_t j = 0; j < counts.rings; ++j) {
    const double z = height * ((static_cast<double>(j) + 0.5) /
                                   static_cast<double>(counts.rings) -
                               0.5);
    for (int64_t i = 0; i < counts.per_ring; ++i) {
      const double angle = pi * static_cast<double>(2 * i + j % 2) /
                           static_cast<double>(counts.per_ring);
      points.push_back({radius * std::cos(angle), radius * std::sin(angle), z});
    }
  }
  // Equal areas between neighbours of the spiral, rotated by the golden angle.
  const double turn = pi * (3 - std::sqrt(5.0));
  for (const double z : {-height / 2, height / 2}) {
    for (int64_t k = 0; k < counts.per_cap; ++k) {
      const double r = radius * std::sqrt((static_cast<double>(k) + 0.5) /
                                          static_cast<double>(counts.per_cap));
      const double angle = turn * static_cast<double>(k);
      points.push_back({r * std::cos(angle), r * std::sin(angle), z});
    }
  }
  return points;
}

}  // namespace propagator::physics
