#pragma once

#include <torch/types.h>

#include "propagator/core/config.h"
#include "propagator/physics/detector/detector_volume.h"

namespace propagator::physics {

enum class Placement { kCorners, kFaces, kCylinder, kFile, kPlane };
enum class Efficiency { kStated, kPublished };
enum class EventTime { kKnown, kUnknown };
enum class PlaneSide { kAuto, kAbove, kBelow };

inline constexpr double kLightSpeed = 0.299792458;  // in vacuum, m/ns

// Light sensors about a volume of a transparent medium. A flash at distance d
// gives a sensor Poisson(λ) photoelectrons, λ = light_yield · 0.8 · 75 m² / d²
// (`stated`: 0.8 at the centre of the 10 m cube, √75 m from a corner;
// `published`: a quarter of it). The sensor fires if there is one at least, at
// the time d · index / c after the flash, with Gaussian jitter. It also fires
// by itself: dark hits are a Poisson process of mean number `dark` in the
// window that begins with the flash. Of both it reports the earliest. The
// window bounds dark hits only. With `charge` it also reports how many
// photoelectrons it counted in all, of light and of dark hits in the window:
// Poisson(λ + dark), as seen from before.
struct DetectorOptions {
  Placement placement = Placement::kCorners;
  double size = 10;
  double height = 10;
  int64_t per_side = 4;
  int64_t sensors = 300;
  double index = 1.5;
  Efficiency efficiency = Efficiency::kStated;
  double light_yield = 1;
  double jitter = 0;
  double dark = 0;
  double window = 100;
  int64_t trigger = 4;
  EventTime event_time = EventTime::kKnown;
  bool charge = false;
  int64_t columns = 8, rows = 8;
  double spacing = 2;
  double plane_z = 0;
  PlaneSide side = PlaneSide::kAuto;

  void describe(config::Schema& schema);
  // ConfigError if the fields contradict one another.
  void validate() const;

 private:
  void describe_later(config::Schema& schema);  // charge and plane
};

class Detector {
 public:
  // What make_detector makes; `positions` (S, 3) have been checked.
  Detector(const DetectorOptions& options, torch::Tensor positions,
           const DetectorVolume& volume);

  const DetectorOptions& options() const { return options_; }
  const torch::Tensor& positions() const { return positions_; }  // (S, 3) m
  int64_t sensors() const { return positions_.size(0); }
  // Events are uniform in it.
  const DetectorVolume& volume() const { return volume_; }
  // The same with a volume that holds `points` (N, 3) too.
  Detector holding(const torch::Tensor& points) const {
    return {options_, positions_, volume_.holding(points)};
  }
  double light_speed() const { return kLightSpeed / options_.index; }  // m/ns
  bool time_known() const { return options_.event_time == EventTime::kKnown; }

  // λ of a sensor at that distance (m).
  double mean_light(double distance) const;
  // λ at 1 m.
  double light_at_unit() const { return light_at_unit_; }
  // ns
  double travel_time(double distance) const { return distance / light_speed(); }

 private:
  DetectorOptions options_;
  torch::Tensor positions_;
  DetectorVolume volume_;
  double light_at_unit_;
};

// Sensors on the surface of the cube of side `size` (8 on corners, 6·per_side²
// on faces) or of the upright cylinder of diameter `size` and height `height`
// (cylinder_counts(…).total() of them, 300 of 300 by default), both about the
// origin; or columns × rows of them on the plane z = plane_z, and events in the
// box of height `height` that stands on it, or hangs below it, over all squares
// of side `spacing`; see sensor_placement.h.
//
// Hits on a plane are the same for an event and for its mirror image in the
// plane. Only one of the two is in the volume, which is what decides.
Detector make_detector(const DetectorOptions& options);
// For placement `file`: sensors at `positions` (S, 3) in m; the volume is the
// box that just holds them or, if they are all at one z and `side` is above or
// below, the box of height `height` on that side of them. DataError if they are
// not finite, if two are alike, if they are fewer than the trigger or enclose
// no volume.
Detector make_detector(const DetectorOptions& options,
                       const torch::Tensor& positions);

}  // namespace propagator::physics

namespace propagator::config {

template <>
struct Names<physics::Placement> {
  using enum physics::Placement;
  static constexpr std::pair<physics::Placement, const char*> all[] = {
      {kCorners, "corners"},
      {kFaces, "faces"},
      {kCylinder, "cylinder"},
      {kFile, "file"},
      {kPlane, "plane"}};
};

template <>
struct Names<physics::PlaneSide> {
  using enum physics::PlaneSide;
  static constexpr std::pair<physics::PlaneSide, const char*> all[] = {
      {kAuto, "auto"}, {kAbove, "above"}, {kBelow, "below"}};
};

template <>
struct Names<physics::Efficiency> {
  using enum physics::Efficiency;
  static constexpr std::pair<physics::Efficiency, const char*> all[] = {
      {kStated, "stated"}, {kPublished, "published"}};
};

template <>
struct Names<physics::EventTime> {
  using enum physics::EventTime;
  static constexpr std::pair<physics::EventTime, const char*> all[] = {
      {kKnown, "known"}, {kUnknown, "unknown"}};
};

}  // namespace propagator::config
