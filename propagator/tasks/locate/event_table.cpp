#include "propagator/tasks/locate/event_table.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <unordered_map>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"

namespace propagator::tasks {
namespace {

// Beyond it a double does not tell whole numbers apart.
constexpr double kLargestName = 9007199254740992.0;
// Hits of light are this many deviations of the jitter early at most.
constexpr double kDeviations = 10;

const std::vector<std::string> kPlace{"sensor_x", "sensor_y", "sensor_z"};

// A place in micrometres: what is written with fewer digits is the same sensor.
std::array<int64_t, 3> rounded_place(const double* at) {
  std::array<int64_t, 3> place;
  for (size_t k = 0; k < 3; ++k) {
    place[k] = std::llround(std::clamp(at[k], -1e12, 1e12) * 1e6);
  }
  return place;
}

class Reader {
 public:
  Reader(const torch::Tensor& rows, const EventLayout& layout)
      : layout_(layout),
        sensors_(layout.positions.size(0)),
        rows_(rows.to(torch::kCPU, torch::kFloat64).contiguous()),
        width_(rows_.size(1)) {
    if (width_ != std::ssize(layout.columns())) {
      throw UsageError(
          fmt::format("[events] expected rows of {} numbers, got {}",
                      layout.columns().size(), width_));
    }
    if (!layout.by_place) return;
    const auto places =
        layout.positions.to(torch::kCPU, torch::kFloat64).contiguous();
    for (int64_t s = 0; s < sensors_; ++s) {
      by_place_.emplace(rounded_place(places.data_ptr<double>() + 3 * s), s);
    }
  }

  EventTable read() {
    std::vector<int64_t> names;
    for (int64_t n = 0; n < rows_.size(0); ++n) {
      const int64_t name = whole(n, row(n)[0], "event");
      if (places_.emplace(name, std::ssize(names)).second) {
        names.push_back(name);
      }
    }
    const int64_t count = std::ssize(names);
    const auto zeros = [&](int64_t width, bool wanted) {
      return wanted ? torch::zeros({count, width}, torch::kFloat64)
                    : torch::Tensor();
    };
    table_ = {torch::tensor(names, torch::kInt64), zeros(sensors_, true),
              torch::zeros({count, sensors_}, torch::kBool),
              zeros(sensors_, layout_.charge), zeros(3, layout_.vertex)};
    first_row_.assign(static_cast<size_t>(count), -1);
    for (int64_t n = 0; n < rows_.size(0); ++n) read_row(n);
    return table_;
  }

  void expect_trigger(const EventTable& table) const {
    const auto counts = table.hits.sum(1);
    const auto few = torch::nonzero(counts < layout_.trigger);
    if (few.size(0) == 0) return;
    const auto n = few[0][0].item<int64_t>();
    throw UsageError(
        fmt::format("event {} has {} hits, fewer than the trigger of {}",
                    table.names[n].item<int64_t>(), counts[n].item<int64_t>(),
                    layout_.trigger),
        "leave it out, or lower detector.trigger");
  }

 private:
  const double* row(int64_t n) const {
    return rows_.data_ptr<double>() + n * width_;
  }

  void read_row(int64_t n) {
    const double* next = row(n);
    const auto name = static_cast<int64_t>(*next++);
    const int64_t at = places_.at(name);
    const int64_t sensor = sensor_of(n, next);
    next += layout_.by_place ? 3 : 1;
    const int64_t cell = at * sensors_ + sensor;
    const double time = *next++;
    if (!(time >= layout_.earliest) || std::isinf(time)) {
      fail(n, fmt::format("expected a time of {:g} ns or more, got {:g}",
                          layout_.earliest, time));
    }
    bool& hit = table_.hits.data_ptr<bool>()[cell];
    if (hit) {
      fail(n, fmt::format("sensor {} has fired in event {} before", sensor + 1,
                          name));
    }
    hit = true;
    table_.times.data_ptr<double>()[cell] = time;
    if (layout_.charge) {
      if (!(*next > 0) || std::isinf(*next)) {
        fail(n, fmt::format("expected a charge above 0, got {:g}", *next));
      }
      table_.charges.data_ptr<double>()[cell] = *next++;
    }
    if (layout_.vertex) read_vertex(n, name, at, next);
  }

  int64_t sensor_of(int64_t n, const double* at) const {
    if (layout_.by_place) {
      const auto found = by_place_.find(rounded_place(at));
      if (found != by_place_.end()) return found->second;
      fail(n, fmt::format("there is no sensor at ({:g}, {:g}, {:g})", at[0],
                          at[1], at[2]));
    }
    const int64_t sensor = whole(n, *at, "sensor");
    if (sensor < 1 || sensor > sensors_) {
      fail(n, fmt::format("expected a sensor from 1 to {}, got {}", sensors_,
                          sensor));
    }
    return sensor - 1;
  }

  void read_vertex(int64_t n, int64_t name, int64_t at, const double* place) {
    double* known = table_.vertices.data_ptr<double>() + 3 * at;
    auto& first = first_row_[static_cast<size_t>(at)];
    for (int k = 0; k < 3; ++k) {
      if (!std::isfinite(place[k])) {
        fail(n,
             fmt::format("expected a finite {}, got {:g}", "xyz"[k], place[k]));
      }
      if (first < 0) {
        known[k] = place[k];
      } else if (known[k] != place[k]) {
        fail(n, fmt::format("event {} has {} = {:g}, and {:g} in row {}", name,
                            "xyz"[k], place[k], known[k], first + 1));
      }
    }
    if (first < 0) first = n;
  }

  [[noreturn]] void fail(int64_t row, const std::string& what) const {
    throw UsageError(fmt::format("row {}: {}", row + 1, what));
  }
  int64_t whole(int64_t row, double value, const char* name) const {
    if (!(std::nearbyint(value) == value) || std::abs(value) > kLargestName) {
      fail(row,
           fmt::format("expected a whole number as {}, got {:g}", name, value));
    }
    return static_cast<int64_t>(value);
  }

  const EventLayout& layout_;
  int64_t sensors_;
  torch::Tensor rows_;  // (hits, width)
  int64_t width_;
  std::map<std::array<int64_t, 3>, int64_t> by_place_;
  std::unordered_map<int64_t, int64_t> places_;  // of events, by their names
  std::vector<int64_t> first_row_;  // of each event, once it is read
  EventTable table_;
};

}  // namespace

std::vector<std::string> EventLayout::columns() const {
  std::vector<std::string> names{"event"};
  if (by_place) {
    names.insert(names.end(), kPlace.begin(), kPlace.end());
  } else {
    names.push_back("sensor");
  }
  names.push_back("time");
  if (charge) names.push_back("charge");
  if (vertex) names.insert(names.end(), {"x", "y", "z"});
  return names;
}

EventLayout layout_of(const physics::Detector& detector, bool by_place) {
  return {.positions = detector.positions(),
          .trigger = detector.options().trigger,
          .earliest = 0 - kDeviations * detector.options().jitter,
          .by_place = by_place,
          .charge = detector.options().charge};
}

physics::Events EventTable::select(const torch::Tensor& places) const {
  const auto part = [&](const torch::Tensor& x) {
    return x.defined() ? x.index_select(0, places) : x;
  };
  return {part(vertices), torch::zeros({places.size(0)}, torch::kFloat64),
          part(times),    part(hits),
          places.size(0), part(charges)};
}

EventTable make_events(const torch::Tensor& rows, const EventLayout& layout) {
  Reader reader(rows, layout);
  auto table = reader.read();
  reader.expect_trigger(table);
  return table;
}

EventTable read_events(const std::filesystem::path& path,
                       const EventLayout& layout) {
  const auto names = layout.columns();
  auto others = kPlace;
  if (layout.by_place) others = {"sensor"};
  const auto table = data::read_table(path, names, others);
  return data::blame_file(path, [&] {
    return make_events(data::stack_points(table, names).flatten(0, -2), layout);
  });
}

int64_t write_events(const std::filesystem::path& path,
                     const physics::Detector& detector,
                     const physics::Events& events, const std::string& note) {
  const auto places = torch::nonzero(events.hits);
  const auto event = places.select(1, 0), sensor = places.select(1, 1);
  std::vector<data::Column> columns{
      {"event", (event + 1).to(torch::kFloat64)},
      {"sensor", (sensor + 1).to(torch::kFloat64)},
      {"time", events.times.masked_select(events.hits)}};
  if (events.charges.defined()) {
    columns.push_back({"charge", events.charges.masked_select(events.hits)});
  }
  const auto add = [&](const torch::Tensor& points, const char* prefix) {
    for (int64_t k = 0; k < 3; ++k) {
      columns.push_back({fmt::format("{}{}", prefix, "xyz"[k]),
                         points.select(1, k).contiguous()});
    }
  };
  add(events.vertices.index_select(0, event), "");
  add(detector.positions().index_select(0, sensor), "sensor_");
  data::write_table(path, columns, note);
  return places.size(0);
}

torch::Tensor read_sensors(const std::filesystem::path& path) {
  return data::read_points(path, {"x", "y", "z"}).flatten(0, -2);
}

torch::Tensor read_sensor_places(const std::filesystem::path& path) {
  const auto table = data::read_table(
      path, kPlace, {"event", "sensor", "time", "charge", "x", "y", "z"});
  const auto all = data::blame_file(path, [&] {
    return data::stack_points(table, kPlace).flatten(0, -2).contiguous();
  });
  std::map<std::array<int64_t, 3>, int64_t> rows;
  for (int64_t n = 0; n < all.size(0); ++n) {
    rows.emplace(rounded_place(all.data_ptr<double>() + 3 * n), n);
  }
  std::vector<int64_t> first;
  for (const auto& [place, row] : rows) first.push_back(row);
  return all.index_select(0, torch::tensor(first, torch::kInt64));
}

}  // namespace propagator::tasks
