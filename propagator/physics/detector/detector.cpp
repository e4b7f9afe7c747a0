#include "propagator/physics/detector/detector.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "propagator/core/error.h"
#include "propagator/physics/detector/sensor_placement.h"

namespace propagator::physics {
namespace {

torch::Tensor to_tensor(const std::vector<Point>& points) {
  const auto count = static_cast<int64_t>(points.size());
  auto positions = torch::empty({count, 3}, torch::kFloat64);
  std::copy_n(points.front().data(), 3 * count, positions.data_ptr<double>());
  return positions;
}

torch::Tensor checked_positions(const torch::Tensor& given, int64_t trigger) {
  if (given.dim() != 2 || given.size(1) != 3) {
    throw DataError(fmt::format(
        "[detector] expected sensor positions (S, 3), got ({})",
        fmt::join(given.sizes().begin(), given.sizes().end(), ", ")));
  }
  auto positions = given.to(torch::kCPU, torch::kFloat64).contiguous().clone();
  const int64_t count = positions.size(0);
  if (count < std::max<int64_t>(trigger, 1)) {
    throw DataError(fmt::format(
        "[detector] expected at least {} sensors (the trigger), got {}",
        std::max<int64_t>(trigger, 1), count));
  }
  const auto* p = reinterpret_cast<const Point*>(positions.data_ptr<double>());
  std::vector<int64_t> order(count);
  for (int64_t i = 0; i < count; ++i) {
    order[i] = i;
    if (!std::ranges::all_of(p[i], [](double x) { return std::isfinite(x); })) {
      throw DataError(fmt::format(
          "[detector] sensor {}: expected a finite position, got ({})", i,
          fmt::join(p[i], ", ")));
    }
  }
  std::ranges::sort(order, {}, [&](int64_t i) { return p[i]; });
  for (int64_t i = 0; i + 1 < count; ++i) {
    if (p[order[i]] != p[order[i + 1]]) continue;
    throw DataError(fmt::format(
        "[detector] expected sensors in different places, got {} and {} both "
        "at ({})",
        std::min(order[i], order[i + 1]), std::max(order[i], order[i + 1]),
        fmt::join(p[order[i]], ", ")));
  }
  return positions;
}

DetectorVolume box_beside(double x, double y, const Point& centre,
                          const DetectorOptions& options) {
  const double half = options.height / 2;
  const bool below = options.side == PlaneSide::kBelow;
  return DetectorVolume::box(
      {centre[0], centre[1], centre[2] + (below ? -half : half)}, {x, y, half});
}

DetectorVolume box_around(const torch::Tensor& positions,
                          const DetectorOptions& options) {
  const auto low = std::get<0>(positions.min(0)).contiguous();
  const auto high = std::get<0>(positions.max(0)).contiguous();
  Point centre, half;
  for (int k = 0; k < 3; ++k) {
    const double from = low.data_ptr<double>()[k];
    const double to = high.data_ptr<double>()[k];
    centre[k] = (from + to) / 2;
    half[k] = (to - from) / 2;
    const bool flat = k == 2 && half[k] <= 0;
    if (flat && options.side != PlaneSide::kAuto) {
      return box_beside(half[0], half[1], centre, options);
    }
    if (half[k] <= 0) {
      throw DataError(
          fmt::format("[detector] expected sensors that enclose a volume, got "
                      "all at {} = "
                      "{}",
                      "xyz"[k], from),
          flat ? "set detector.side=above or below, where events are, and "
                 "detector.height"
               : "");
    }
  }
  return DetectorVolume::box(centre, half);
}

}  // namespace

void DetectorOptions::describe(config::Schema& s) {
  s.field("placement", placement,
          {.help = "where the sensors are; plane: a flat array of columns x "
                   "rows; file: at the positions in the file that the key "
                   "sensors names"});
  s.field("size", size,
          {.help = "side of the cube, or diameter of the cylinder",
           .unit = "m",
           .min = 1e-3,
           .max = 1e6});
  s.field(
      "height", height,
      {.help =
           "height of the cylinder, or of the volume on one side of a plane",
       .unit = "m",
       .min = 1e-3,
       .max = 1e6});
  s.field("per_side", per_side,
          {.help = "n of n x n sensors on each face, for placement: faces",
           .min = 1,
           .max = 100});
  s.field("sensors", sensors,
          {.help = "about how many sensors the cylinder has",
           .min = 3,
           .max = 1e6});
  s.field("index", index,
          {.help = "index of refraction of the medium", .min = 1, .max = 100});
  s.field("efficiency", efficiency,
          {.help = "stated: 0.8 photoelectrons on average at 8.66 m; "
                   "published: a quarter of that"});
  s.field("light_yield", light_yield,
          {.help = "factor of the mean number of photoelectrons, for a larger "
                   "detector",
           .min = 1e-9,
           .max = 1e9,
           .formerly = "detector.light"});
  s.field("jitter", jitter,
          {.help = "standard deviation of a hit time",
           .unit = "ns",
           .min = 0,
           .max = 1e6});
  s.field("dark", dark,
          {.help = "mean number of dark hits of a sensor in the window",
           .min = 0,
           .max = 100});
  s.field("window", window,
          {.help = "time from the event on in which dark hits occur; also the "
                   "range of an unknown event time",
           .unit = "ns",
           .min = 1e-3,
           .max = 1e9});
  s.field("trigger", trigger,
          {.help = "hits that an event needs; events with fewer are resampled",
           .min = 0});
  s.field("event_time", event_time,
          {.help = "known: events are at time 0; unknown: uniformly in the "
                   "window"});
  describe_later(s);
}

void DetectorOptions::describe_later(config::Schema& s) {
  s.field("charge", charge,
          {.help = "sensors report how many photoelectrons they counted, and "
                   "models read it",
           .later = true});
  s.field("columns", columns,
          {.help = "sensors along x, for placement: plane",
           .min = 2,
           .max = 1000,
           .later = true});
  s.field("rows", rows,
          {.help = "sensors along y, for placement: plane",
           .min = 2,
           .max = 1000,
           .later = true});
  s.field("spacing", spacing,
          {.help = "distance between neighbours of a plane",
           .unit = "m",
           .min = 1e-3,
           .max = 1e6,
           .later = true});
  s.field("plane_z", plane_z,
          {.help = "height z of a plane of sensors",
           .unit = "m",
           .min = -1e6,
           .max = 1e6,
           .later = true});
  s.field("side", side,
          {.help = "on which side of a plane of sensors the events are; auto: "
                   "above",
           .later = true});
}

void DetectorOptions::validate() const {
  if (placement == Placement::kFile) return;
  int64_t count = 8;
  if (placement == Placement::kFaces) count = 6 * per_side * per_side;
  if (placement == Placement::kCylinder) {
    count = cylinder_counts(size, height, sensors).total();
  }
  if (placement == Placement::kPlane) count = columns * rows;
  if (trigger > count) {
    throw ConfigError(
        "detector.trigger",
        fmt::format("expected at most {}, the number of sensors, got {}", count,
                    trigger));
  }
}

Detector::Detector(const DetectorOptions& options, torch::Tensor positions,
                   const DetectorVolume& volume)
    : options_(options),
      positions_(std::move(positions)),
      volume_(volume),
      light_at_unit_(options.light_yield * 0.8 * 75) {
  if (options.efficiency == Efficiency::kPublished) light_at_unit_ /= 4;
}

double Detector::mean_light(double distance) const {
  return light_at_unit_ / (distance * distance);
}

Detector make_detector(const DetectorOptions& options) {
  options.validate();
  const double half = options.size / 2;
  const auto cube = DetectorVolume::box({0, 0, 0}, {half, half, half});
  switch (options.placement) {
    case Placement::kCorners:
      return {options, to_tensor(corner_sensors(half)), cube};
    case Placement::kFaces:
      return {options, to_tensor(face_sensors(half, options.per_side)), cube};
    case Placement::kCylinder:
      return {options,
              to_tensor(cylinder_sensors(options.size, options.height,
                                         options.sensors)),
              DetectorVolume::cylinder(half, options.height / 2)};
    case Placement::kPlane:
      return {
          options,
          to_tensor(plane_sensors(options.columns, options.rows,
                                  options.spacing, options.plane_z)),
          box_beside(options.spacing * static_cast<double>(options.columns) / 2,
                     options.spacing * static_cast<double>(options.rows) / 2,
                     {0, 0, options.plane_z}, options)};
    case Placement::kFile:
      break;
  }
  throw UsageError(
      "[detector] expected the sensors' positions with placement: file, got "
      "none");
}

Detector make_detector(const DetectorOptions& options,
                       const torch::Tensor& positions) {
  if (options.placement != Placement::kFile) {
    throw UsageError(fmt::format(
        "[detector] expected placement: file beside positions, got {}",
        config::name_of(options.placement)));
  }
  options.validate();
  const auto checked = checked_positions(positions, options.trigger);
  return {options, checked, box_around(checked, options)};
}

}  // namespace propagator::physics
