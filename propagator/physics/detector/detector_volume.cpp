#include "propagator/physics/detector/detector_volume.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "propagator/core/error.h"

namespace propagator::physics {
namespace {

// Rounding may leave a point on a wall this far, as a fraction, from it.
constexpr double kSlack = 1e-12;

}  // namespace

DetectorVolume DetectorVolume::box(const Point& centre, const Point& half) {
  return {false, centre, half};
}

DetectorVolume DetectorVolume::cylinder(double radius, double half_height) {
  return {true, {0, 0, 0}, {radius, radius, half_height}};
}

Point DetectorVolume::at(const Point& u) const {
  Point point;
  for (int k = 0; k < 3; ++k) {
    point[k] = centre_[k] + (2 * u[k] - 1) * half_[k];
  }
  if (round_) {
    const double r = half_[0] * std::sqrt(u[0]);
    const double angle = 2 * std::numbers::pi * u[1];
    point[0] = centre_[0] + r * std::cos(angle);
    point[1] = centre_[1] + r * std::sin(angle);
  }
  return point;
}

bool DetectorVolume::inside(const Point& point) const {
  Point part;  // of the way to the walls
  for (int k = 0; k < 3; ++k) {
    part[k] = std::abs(point[k] - centre_[k]) / half_[k];
  }
  const double across =
      round_ ? std::hypot(part[0], part[1]) : std::max(part[0], part[1]);
  return across <= 1 + kSlack && part[2] <= 1 + kSlack;
}

torch::Tensor DetectorVolume::inside(const torch::Tensor& points) const {
  if (points.dim() != 2 || points.size(1) != 3) {
    throw UsageError(fmt::format(
        "[detector] expected points (N, 3), got ({})",
        fmt::join(points.sizes().begin(), points.sizes().end(), ", ")));
  }
  const auto x = points.to(torch::kCPU, torch::kFloat64).contiguous();
  const auto* p = x.data_ptr<double>();
  auto result = torch::empty({x.size(0)}, torch::kBool);
  auto* in = result.data_ptr<bool>();
  for (int64_t n = 0; n < x.size(0); ++n) {
    in[n] = inside(Point{p[3 * n], p[3 * n + 1], p[3 * n + 2]});
  }
  return result;
}

DetectorVolume DetectorVolume::holding(const torch::Tensor& points) const {
  if (inside(points).all().item<bool>()) return *this;
  const auto x = points.to(torch::kCPU, torch::kFloat64).contiguous();
  const auto* p = x.data_ptr<double>();
  Point centre, half;
  for (int k = 0; k < 3; ++k) {
    double low = centre_[k] - half_[k], high = centre_[k] + half_[k];
    for (int64_t n = 0; n < x.size(0); ++n) {
      low = std::min(low, p[3 * n + k]);
      high = std::max(high, p[3 * n + k]);
    }
    centre[k] = (low + high) / 2;
    half[k] = (high - low) / 2;
  }
  return box(centre, half);
}

Point DetectorVolume::confine(const Point& point) const {
  Point near;
  for (int k = 0; k < 3; ++k) {
    near[k] =
        std::clamp(point[k], centre_[k] - half_[k], centre_[k] + half_[k]);
  }
  if (round_) {
    const double dx = point[0] - centre_[0], dy = point[1] - centre_[1];
    const double shrink = std::min(1.0, half_[0] / std::hypot(dx, dy));
    near[0] = centre_[0] + shrink * dx;
    near[1] = centre_[1] + shrink * dy;
  }
  return near;
}

int DetectorVolume::walls(const Point& point,
                          std::array<Point, 3>& normals) const {
  int count = 0;
  for (int k = round_ ? 2 : 0; k < 3; ++k) {
    const double from_centre = point[k] - centre_[k];
    if (std::abs(from_centre) < half_[k] * (1 - kSlack)) continue;
    normals[count] = {0, 0, 0};
    normals[count++][k] = from_centre > 0 ? 1 : -1;
  }
  if (round_) {
    const double dx = point[0] - centre_[0], dy = point[1] - centre_[1];
    const double r = std::hypot(dx, dy);
    if (r >= half_[0] * (1 - kSlack)) normals[count++] = {dx / r, dy / r, 0};
  }
  return count;
}

}  // namespace propagator::physics
