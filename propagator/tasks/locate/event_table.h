#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "propagator/physics/detector/light_events.h"

namespace propagator::tasks {

// How hits are written down, one row for each under the names
//   event                         any whole number that tells events apart
//   sensor                        from 1 to S, or by_place:
//   sensor_x, sensor_y, sensor_z  where the sensor is, in m, to a micrometre
//   time                          in ns
//   charge                        photoelectrons, if there are any
//   x, y, z                       the event's place in m, the same in all of
//   its
//                                 rows, if it is known
struct EventLayout {
  torch::Tensor positions;  // (S, 3) m, of the sensors
  int64_t trigger = 0;      // hits that an event needs
  double earliest = 0;      // ns, of a hit; jitter may be before the flash
  bool by_place = false, charge = false, vertex = false;

  // The names, in this order.
  std::vector<std::string> columns() const;
};

// As layouts of a detector's hits are.
EventLayout layout_of(const physics::Detector& detector, bool by_place);

struct EventTable {
  torch::Tensor names;     // (N) int64, events as they come
  torch::Tensor times;     // (N, S) ns, 0 where not hit; float64
  torch::Tensor hits;      // (N, S) bool
  torch::Tensor charges;   // (N, S), 0 where not hit; or undefined
  torch::Tensor vertices;  // (N, 3) m; or undefined

  int64_t size() const { return names.size(0); }
  // Those at these places, for a fit.
  physics::Events select(const torch::Tensor& places) const;
};

// From rows (hits, columns). UsageError, with the row, if a number is not
// finite, an event or a sensor is no whole number, a sensor is not one of the
// detector's or comes twice in an event, a time is before the earliest, a
// charge is not above 0, or an event has two places or fewer hits than the
// trigger.
EventTable make_events(const torch::Tensor& rows, const EventLayout& layout);

// The same of a file with these names; DataError.
EventTable read_events(const std::filesystem::path& path,
                       const EventLayout& layout);

// The other way: columns of event (from 1), sensor, time, charge if there are
// any, x, y, z, and sensor_x, sensor_y, sensor_z. Returns how many hits.
int64_t write_events(const std::filesystem::path& path,
                     const physics::Detector& detector,
                     const physics::Events& events, const std::string& note);

// Sensors' positions (S, 3) in m, from a file with the names x, y and z.
torch::Tensor read_sensors(const std::filesystem::path& path);

// Those that a file of hits names by their places, in order of x, then y, then
// z.
torch::Tensor read_sensor_places(const std::filesystem::path& path);

}  // namespace propagator::tasks
