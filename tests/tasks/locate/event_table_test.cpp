#include "propagator/tasks/locate/event_table.h"

#include <array>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/physics/detector/light_events.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::thrown;

// Rows of event, sensor and time in a detector of eight sensors that takes two
// to trigger.
EventTable events_of(const std::vector<std::array<double, 3>>& rows) {
  auto all = torch::empty({std::ssize(rows), 3}, torch::kFloat64);
  for (size_t n = 0; n < rows.size(); ++n) {
    for (size_t k = 0; k < 3; ++k) {
      all[static_cast<int64_t>(n)][static_cast<int64_t>(k)] = rows[n][k];
    }
  }
  return make_events(all, {.positions = torch::zeros({8, 3}), .trigger = 2});
}

TEST(TasksEventTable, ReadsHitsInAnyOrder) {
  const auto table = events_of(
      {{7, 8, 3.5}, {-2, 1, 0}, {7, 1, 30}, {-2, 5, 12}, {-2, 2, 10}});
  EXPECT_TRUE(torch::equal(table.names, torch::tensor({7, -2}, torch::kInt64)));
  ASSERT_EQ(table.times.sizes(), (std::vector<int64_t>{2, 8}));
  const auto times = torch::tensor({{30.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.5},
                                    {0.0, 10.0, 0.0, 0.0, 12.0, 0.0, 0.0, 0.0}},
                                   torch::kFloat64);
  EXPECT_TRUE(torch::equal(table.times, times));
  auto hits = times != 0;
  hits[1][0] = true;  // at time 0
  EXPECT_TRUE(torch::equal(table.hits, hits));
}

TEST(TasksEventTable, ASimulatedEventComesBack) {
  const auto detector = physics::make_detector({.trigger = 2});
  const auto events = physics::draw_events(detector, 3, 0, 20);
  const auto places = torch::nonzero(events.hits).to(torch::kFloat64);
  const auto time = events.times.masked_select(events.hits);
  const auto table = make_events(
      torch::stack({places.select(1, 0), places.select(1, 1) + 1, time}, 1),
      layout_of(detector, /*by_place=*/false));
  EXPECT_TRUE(torch::equal(table.times, events.times));
  EXPECT_TRUE(torch::equal(table.hits, events.hits));
}

TEST(TasksEventTable, BadRowsAreNamed) {
  const double nan = std::nan("");
  const struct {
    std::vector<std::array<double, 3>> rows;
    const char* text;
  } cases[] = {
      {{{1, 1, 2}, {1, 9, 3}}, "row 2: expected a sensor from 1 to 8, got 9"},
      {{{1, 0, 2}, {1, 2, 3}}, "row 1: expected a sensor from 1 to 8, got 0"},
      {{{1, 1.5, 2}, {1, 2, 3}}, "row 1: expected a whole number as sensor"},
      {{{1, 1, 2}, {1.25, 2, 3}}, "row 2: expected a whole number as event"},
      {{{nan, 1, 2}, {1, 2, 3}}, "row 1: expected a whole number as event"},
      {{{1, 1, 2}, {1, 2, -3}},
       "row 2: expected a time of 0 ns or more, got -3"},
      {{{1, 1, nan}, {1, 2, 3}}, "row 1: expected a time of 0 ns or more"},
      {{{1, 1, 2}, {1, 1, 3}}, "row 2: sensor 1 has fired in event 1 before"},
      {{{1, 1, 2}, {1, 2, 3}, {4, 3, 1}},
       "event 4 has 1 hits, fewer than the trigger of 2"},
  };
  for (const auto& [rows, text] : cases) {
    const auto message =
        thrown<UsageError>([&, rows = rows] { events_of(rows); });
    EXPECT_NE(message.find(text), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace propagator::tasks
