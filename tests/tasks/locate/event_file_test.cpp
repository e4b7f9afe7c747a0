#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/csv.h"
#include "propagator/tasks/locate/locate.h"
#include "tasks/training.h"
#include "testing.h"

// Events of a file: tables of hits with charges, places of sensors and events.

namespace propagator::tasks {
namespace {

using testing::kDouble;
using testing::near;
using testing::thrown;
using torch::Tensor;

physics::Detector charged(double jitter = 1) {
  physics::DetectorOptions o;
  o.charge = true;
  o.jitter = jitter;
  return physics::make_detector(o);
}

class TasksEventFile : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return (folder / name).string();
  }
  // A file with these lines behind the names.
  std::string lines(const std::string& names, const std::string& rows) {
    write_file_atomically(folder / "events.csv", names + "\n" + rows);
    return path("events.csv");
  }
  static run::Experiment experiment(const std::string& more) {
    return run::Experiment(config::Document::from_text(
        "task: locate\nprecision: fp64\neval: {classical: 8, batch: 40}\n"
        "model: {name: hit_former, width: 8, layers: 1, heads: 2, "
        "feed_forward: 8}\n"
        "train: {batch: 8, max_steps: 6, checkpoint_every: 1, "
        "keep_checkpoints: 9}\n" +
            more,
        "test"));
  }

  testing::TemporaryFolder folder;
};

TEST_F(TasksEventFile, SimulatedEventsComeBackFromEveryFormat) {
  // Jitter may bring a hit before the flash.
  const auto detector = charged(/*jitter=*/30);
  const auto events = physics::draw_events(detector, 3, 0, 40);
  ASSERT_LT(events.times.min().item<double>(), 0);
  for (const char* name : {"a.csv", "a.h5", "a.npz"}) {
    const int64_t hits = write_events(path(name), detector, events, "{}");
    EXPECT_EQ(hits, events.hits.sum().item<int64_t>());
    for (const bool by_place : {false, true}) {
      auto layout = layout_of(detector, by_place);
      layout.vertex = true;
      const auto table = read_events(path(name), layout);
      EXPECT_TRUE(torch::equal(table.times, events.times)) << name;
      EXPECT_TRUE(torch::equal(table.hits, events.hits)) << name;
      EXPECT_TRUE(torch::equal(table.charges, events.charges)) << name;
      EXPECT_TRUE(torch::equal(table.vertices, events.vertices)) << name;
      const auto some = table.select(torch::tensor({7, 2}));
      EXPECT_TRUE(torch::equal(some.charges[1], events.charges[2]));
      EXPECT_TRUE(torch::equal(some.vertices[0], events.vertices[7]));
    }
    EXPECT_TRUE(
        torch::equal(read_sensor_places(path(name)), detector.positions()));
  }
}

TEST_F(TasksEventFile, BadFilesAreNamedWithTheirRow) {
  const auto detector = physics::make_detector({.trigger = 2, .charge = true});
  const auto message = [&](const std::string& names, const std::string& rows,
                           bool by_place = false) {
    auto layout = layout_of(detector, by_place);
    layout.vertex = true;
    const auto file = lines(names, rows);
    return thrown<DataError>([&] { read_events(file, layout); });
  };
  const std::string names = "event,sensor,time,charge,x,y,z";
  const struct {
    std::string rows;
    const char* text;
  } cases[] = {
      {"1,1,40,2,0,0,0\n1,9,41,1,0,0,0\n",
       "events.csv: row 2: expected a sensor from 1 to 8, got 9"},
      {"1,1,40,2,0,0,0\n1,1,41,1,0,0,0\n",
       "row 2: sensor 1 has fired in event 1 before"},
      {"1,1,40,2,0,0,0\n", "event 1 has 1 hits, fewer than the trigger of 2"},
      {"1,1,40,0,0,0,0\n1,2,41,1,0,0,0\n",
       "row 1: expected a charge above 0, got 0"},
      {"1,1,40,2,0,0,0\n1,2,41,1,0,3,0\n",
       "row 2: event 1 has y = 3, and 0 in row 1"},
      {"1,1,-4,2,0,0,0\n1,2,41,1,0,0,0\n",
       "row 1: expected a time of 0 ns or more, got -4"},
      {"1,1,nan,2,0,0,0\n1,2,41,1,0,0,0\n", "line 2"},
      {"1,1,40,2,0,0,\n1,2,41,1,0,0,0\n", "line 2"},
      {"", "events.csv"},
  };
  for (const auto& [rows, text] : cases) {
    const auto said = message(names, rows);
    EXPECT_NE(said.find(text), std::string::npos) << said;
  }
  for (const auto& [columns, missing] :
       {std::pair{"event,sensor,time,x,y,z", "charge"},
        std::pair{"event,sensor,time,charge,x,y", "'z'"},
        std::pair{"sensor,time,charge,x,y,z", "event"},
        std::pair{"event,time,charge,x,y,z", "sensor"}}) {
    const auto said = message(columns, "1,1,1,1,1,1\n");
    EXPECT_NE(said.find(fmt::format("expected a column named")),
              std::string::npos);
    EXPECT_NE(said.find(missing), std::string::npos) << said;
  }
  const auto said =
      message("event,sensor_x,sensor_y,sensor_z,time,charge,x,y,z",
              "1,5,5,5,40,1,0,0,0\n1,5,5,-4,40,1,0,0,0\n", true);
  EXPECT_NE(said.find("row 2: there is no sensor at (5, 5, -4)"),
            std::string::npos)
      << said;
}

TEST_F(TasksEventFile, ARunLearnsFromAFileAndTestsOnTheRestOfIt) {
  const auto detector = charged();
  const auto events = physics::draw_events(detector, 3, 0, 200);
  write_events(path("events.h5"), detector, events, "{}");
  const auto e = experiment(
      "detector: {charge: yes, jitter: 1}\ndata: {file: " + path("events.h5") +
      "}\n");
  e.task().prepare(0, kDouble);
  EXPECT_EQ(e.task().size(data::Split::kTrain), 140);
  EXPECT_EQ(e.task().size(data::Split::kValidation), 40);
  EXPECT_EQ(e.task().size(data::Split::kTest), 20);
  const auto model = e.make_model(kDouble);
  model->eval();
  const auto loss = e.task().loss(*model, data::Split::kTrain,
                                  torch::tensor({5}, torch::kInt64));
  const auto at = torch::tensor({data::make_split(200, 0).train[5]});
  const auto part = [&](const Tensor& x) { return x.index_select(0, at); };
  const auto located = models::as_locator(*model).forward(
      {part(events.times), part(events.hits), detector.positions(),
       part(events.charges)});
  EXPECT_TRUE(near(loss.total,
                   models::gaussian_nll(located, part(events.vertices)),
                   testing::kFloat64));
  const auto evaluation = e.task().evaluate(*model, data::Split::kTest);
  EXPECT_EQ(evaluation.numbers.at("events"), 20);
  EXPECT_EQ(evaluation.numbers.at("classical_events"), 8);
  EXPECT_TRUE(evaluation.numbers.at("likelihood_uses_charge").get<bool>());
  EXPECT_NE(evaluation.remarks.at(1).find("fired and charges"),
            std::string::npos);
  EXPECT_NE(e.task().inspect().at(1).find("200 events in"), std::string::npos);
  EXPECT_TRUE(e.remarks(140).empty());
}

TEST_F(TasksEventFile, SensorsByTheirPlacesNeedNoOtherTable) {
  const auto detector = charged();
  const auto events = physics::draw_events(detector, 3, 0, 60);
  write_events(path("events.csv"), detector, events, "{}");
  const auto e = experiment(
      "detector: {placement: file, charge: yes, jitter: 1}\ndata: {file: " +
      path("events.csv") + "}\n");
  e.task().prepare(0, kDouble);
  const auto model = e.make_model(kDouble);
  const auto surrogate = e.task().surrogate(model, kDouble);
  std::vector<std::string> names;
  for (const auto& port : surrogate->inputs()) names.push_back(port.name);
  EXPECT_EQ(names, (std::vector<std::string>{"event", "sensor_x", "sensor_y",
                                             "sensor_z", "time", "charge"}));
  NamedTensors table;
  for (const auto& column : data::read_csv(path("events.csv"))) {
    table[column.name] = column.values;
  }
  const auto answers = surrogate->apply(table);
  const auto located = models::as_locator(*model).forward(
      {events.times, events.hits, detector.positions(), events.charges});
  EXPECT_TRUE(near(answers.at("y"), located.position.select(1, 1).detach(),
                   {1e-9, 1e-10}));
}

TEST_F(TasksEventFile, FitsLookWhereTheEventsAre) {
  // Events outside the box of the sensors.
  physics::DetectorOptions o;
  o.size = 4;
  const auto inner = physics::make_detector(o);
  const auto outer = inner.holding(
      torch::tensor({{6.0, 0.0, 0.0}, {0.0, -3.0, 1.0}}, torch::kFloat64));
  EXPECT_EQ(outer.volume().half(), (physics::Point{4, 2.5, 2}));
  EXPECT_EQ(outer.volume().centre(), (physics::Point{2, -0.5, 0}));
  EXPECT_EQ(inner.holding(torch::zeros({1, 3})).volume().half(),
            inner.volume().half());
  const auto events = physics::draw_events(outer, 3, 0, 100);
  write_events(path("events.npz"), outer, events, "{}");
  const auto e = experiment(
      "detector: {size: 4}\ndata: {file: " + path("events.npz") + "}\n");
  e.task().prepare(0, kDouble);
  const auto evaluation =
      e.task().evaluate(*e.make_model(kDouble), data::Split::kTest);
  EXPECT_LT(evaluation.numbers.at("classical").at("least_squares").at("median"),
            1e-6);
}

TEST_F(TasksEventFile, ContradictionsAndShortFilesAreRefused) {
  const auto detector = charged();
  write_events(path("few.csv"), detector,
               physics::draw_events(detector, 3, 0, 9), "{}");
  const auto e = experiment(
      "detector: {jitter: 1}\ndata: {file: " + path("few.csv") + "}\n");
  EXPECT_NE(thrown<DataError>([&] {
              e.task().prepare(0, kDouble);
            }).find("9 events are too few"),
            std::string::npos);
  EXPECT_THROW(experiment("data: {file: events.txt}\n"), UsageError);
  const auto absent = experiment("data: {file: " + path("no.csv") + "}\n");
  EXPECT_ANY_THROW(absent.task().prepare(0, kDouble));
  const auto& writer = dynamic_cast<const DataWriter&>(e.task());
  EXPECT_NE(thrown<UsageError>([&] {
              writer.write_data(path("b.csv"), 0, kDouble, "{}");
            }).find("is read, not simulated"),
            std::string::npos);
  const auto unused = experiment(
      "detector: {jitter: 1}\ndata: {events: 7, "
      "resample_every: 2, file: " +
      path("few.csv") + "}\n");
  EXPECT_EQ(unused.remarks(8).size(), 2u);
}

TEST_F(TasksEventFile, WritesTheEventsOfTheTraining) {
  const auto e = experiment("detector: {charge: yes}\ndata: {events: 30}\n");
  const auto& writer = dynamic_cast<const DataWriter&>(e.task());
  const auto said = writer.write_data(path("a.h5"), 5, kDouble, "{}");
  EXPECT_EQ(said.find("30 events of "), 0u) << said;
  const auto detector = charged(0);
  auto layout = layout_of(detector, false);
  layout.vertex = true;
  const auto events = physics::draw_events(detector, 5, 0, 30);
  EXPECT_TRUE(torch::equal(read_events(path("a.h5"), layout).vertices,
                           events.vertices));
  EXPECT_THROW(writer.write_data(path("a.mat"), 5, kDouble, "{}"), UsageError);
}

TEST_F(TasksEventFile, ResumesToTheSameBits) {
  const auto detector = charged();
  write_events(path("events.csv"), detector,
               physics::draw_events(detector, 3, 0, 60), "{}");
  const auto run = [&](const std::string& name,
                       const std::optional<std::filesystem::path>& from) {
    return testing::trained_to(
        6,
        experiment("detector: {charge: yes, jitter: 1}\ndata: {file: " +
                   path("events.csv") + "}\n"),
        kDouble, folder / name, from);
  };
  const auto whole = run("whole", {});
  const auto again =
      run("again", train::checkpoint_path(folder / "whole" / "checkpoints", 3));
  for (const auto& [name, value] : whole.model) {
    EXPECT_TRUE(torch::equal(again.model.at(name), value)) << name;
  }
}

}  // namespace
}  // namespace propagator::tasks
