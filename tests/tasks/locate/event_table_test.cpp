#include "propagator/tasks/locate/event_table.h"

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/point_table.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::TemporaryFolder;
using testing::thrown;

class TasksEventTable : public ::testing::Test {
 protected:
  std::string write(const std::string& rows) {
    const auto path = folder / "events.csv";
    write_file_atomically(path, "event,sensor,time\n" + rows);
    return path.string();
  }
  std::string refused(const std::string& rows) {
    const auto path = write(rows);
    return thrown<DataError>([&] { read_events(path, detector); });
  }

  TemporaryFolder folder;
  const physics::Detector detector = physics::make_detector({.trigger = 2});
};

TEST_F(TasksEventTable, ReadsHitsInAnyOrder) {
  const auto table = read_events(
      write("7,8,3.5\n-2,1,0\n7,1,30\n-2,5,12\n-2,2,1e1\n"), detector);
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

TEST_F(TasksEventTable, ASimulatedEventComesBackFromHdf5) {
  const auto events = physics::draw_events(detector, 3, 0, 20);
  const auto places = torch::nonzero(events.hits);
  const auto time = events.times.masked_select(events.hits);
  data::write_point_table(folder / "e.h5", {{"event", places.select(1, 0)},
                                            {"sensor", places.select(1, 1) + 1},
                                            {"time", time}});
  const auto table = read_events(folder / "e.h5", detector);
  EXPECT_TRUE(torch::equal(table.times, events.times));
  EXPECT_TRUE(torch::equal(table.hits, events.hits));
}

TEST_F(TasksEventTable, BadRowsAreNamed) {
  const struct {
    const char *rows, *text;
  } cases[] = {
      {"1,1,2\n1,9,3\n", "row 2: expected a sensor from 1 to 8, got 9"},
      {"1,0,2\n1,2,3\n", "row 1: expected a sensor from 1 to 8, got 0"},
      {"1,1.5,2\n1,2,3\n", "row 1: expected a whole number as sensor"},
      {"1,1,2\n1.25,2,3\n", "row 2: expected a whole number as event"},
      {"1,1,2\n1,2,-3\n", "row 2: expected a time of 0 ns or more, got -3"},
      {"1,1,2\n1,1,3\n", "row 2: sensor 1 has fired in event 1 before"},
      {"1,1,2\n1,2,3\n4,3,1\n", "event 4 has 1 hits, fewer than the trigger"},
      {"1,1,nan\n1,2,3\n", "line 2, column 3"},
      {"1,1\n", "line 2"},
      {"", "the file ends"},
  };
  for (const auto& [rows, text] : cases) {
    const auto message = refused(rows);
    EXPECT_NE(message.find(text), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace propagator::tasks
