#include "propagator/tasks/locate/event_table.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <cmath>
#include <unordered_map>

#include "propagator/core/error.h"
#include "propagator/data/named_table.h"

namespace propagator::tasks {
namespace {

// Beyond it a double does not tell whole numbers apart.
constexpr double kLargestName = 9007199254740992.0;

class Reader {
 public:
  Reader(const torch::Tensor& rows, int64_t sensors)
      : sensors_(sensors), rows_(rows.to(torch::kCPU, torch::kFloat64)) {}

  EventTable read() {
    const auto row = rows_.accessor<double, 2>();
    std::unordered_map<int64_t, int64_t> places;
    std::vector<int64_t> names;
    for (int64_t n = 0; n < rows_.size(0); ++n) {
      const int64_t name = whole(n, row[n][0], "event");
      if (places.emplace(name, std::ssize(names)).second) names.push_back(name);
    }
    EventTable table{
        torch::tensor(names, torch::kInt64),
        torch::zeros({std::ssize(names), sensors_}, torch::kFloat64),
        torch::zeros({std::ssize(names), sensors_}, torch::kBool)};
    auto times = table.times.accessor<double, 2>();
    auto hits = table.hits.accessor<bool, 2>();
    for (int64_t n = 0; n < rows_.size(0); ++n) {
      const auto name = static_cast<int64_t>(row[n][0]);
      const int64_t at = places.at(name);
      const int64_t sensor = whole(n, row[n][1], "sensor");
      if (sensor < 1 || sensor > sensors_) {
        fail(n, fmt::format("expected a sensor from 1 to {}, got {}", sensors_,
                            sensor));
      }
      if (!(row[n][2] >= 0) || std::isinf(row[n][2])) {
        fail(n, fmt::format("expected a time of 0 ns or more, got {:g}",
                            row[n][2]));
      }
      if (hits[at][sensor - 1]) {
        fail(n, fmt::format("sensor {} has fired in event {} before", sensor,
                            name));
      }
      hits[at][sensor - 1] = true;
      times[at][sensor - 1] = row[n][2];
    }
    return table;
  }

  void expect_trigger(const EventTable& table, int64_t trigger) const {
    const auto counts = table.hits.sum(1);
    const auto few = torch::nonzero(counts < trigger);
    if (few.size(0) == 0) return;
    const auto n = few[0][0].item<int64_t>();
    throw UsageError(fmt::format(
        "event {} has {} hits, fewer than the trigger of {}",
        table.names[n].item<int64_t>(), counts[n].item<int64_t>(), trigger));
  }

 private:
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

  int64_t sensors_;
  torch::Tensor rows_;  // (hits, 3)
};

}  // namespace

EventTable make_events(const torch::Tensor& rows, int64_t sensors,
                       int64_t trigger) {
  Reader reader(rows, sensors);
  auto table = reader.read();
  reader.expect_trigger(table, trigger);
  return table;
}

torch::Tensor read_sensors(const std::filesystem::path& path) {
  return data::read_points(path, {"x", "y", "z"}).flatten(0, -2);
}

}  // namespace propagator::tasks
