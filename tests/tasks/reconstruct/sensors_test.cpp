#include "propagator/tasks/reconstruct/sensors.h"

#include <torch/utils.h>

#include <cmath>
#include <fstream>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/data/tensor_file.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

pde::Problem rod() {
  return pde::Problem::parse({.domain = {"x in [0, 1]", "t in [0, 2]"},
                              .fields = {"u", "q"},
                              .equations = {"u_t = -q_x", "q = -u_x"},
                              .exact = {"u = exp(-pi^2*t)*sin(pi*x)",
                                        "q = -pi*exp(-pi^2*t)*cos(pi*x)"}},
                             pde::Posed::kByReadings);
}

class TasksSensors : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder;

  SensorOptions file(const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return {.file = (folder / name).string(), .held_out = 0};
  }
  // What reading it says.
  std::string refusal(const SensorOptions& options,
                      const std::vector<int64_t>& measured = {0, 1}) {
    try {
      read_readings(rod(), options, measured, 0);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(TasksSensors, OfASolutionReadItsFormulaInsideTheDomain) {
  const auto [training, held_out] =
      sensors_of_solution(rod(), {.count = 50, .held_out = 0.2}, {0}, 3);
  ASSERT_EQ(training.count(), 50);
  ASSERT_EQ(held_out.count(), 10);
  for (const auto& some : {training, held_out}) {
    const auto x = some.points.select(1, 0), t = some.points.select(1, 1);
    EXPECT_GE(some.points.min().item<double>(), 0);
    EXPECT_LE(x.max().item<double>(), 1);
    EXPECT_LE(t.max().item<double>(), 2);
    const auto u = torch::exp(-std::pow(std::numbers::pi, 2) * t) *
                   torch::sin(std::numbers::pi * x);
    EXPECT_TRUE(testing::near(some.readings.select(1, 0), u, {0, 1e-12}));
    EXPECT_TRUE(torch::isnan(some.readings.select(1, 1)).all().item<bool>())
        << "q is not read";
  }
  const auto other = sensors_of_solution(rod(), {.count = 50}, {0}, 4);
  EXPECT_FALSE(torch::equal(other.training.points, training.points));
}

TEST_F(TasksSensors, NoiseHasTheSizeThatIsAskedFor) {
  const SensorOptions clean{.count = 4000, .held_out = 0};
  auto noisy = clean;
  noisy.noise = 0.1;
  const auto before = sensors_of_solution(rod(), clean, {0, 1}, 1).training;
  const auto after = sensors_of_solution(rod(), noisy, {0, 1}, 1).training;
  EXPECT_TRUE(torch::equal(before.points, after.points));
  const auto added = (after.readings - before.readings).std(0, true);
  EXPECT_TRUE(testing::near(added / before.readings.std(0, true),
                            torch::full({2}, 0.1, torch::kFloat64), {0, 5e-3}));
}

TEST_F(TasksSensors, OnAGridFillTheDomainEvenly) {
  const auto sensors = sensors_of_solution(
      rod(), {.count = 16, .placement = Placement::kGrid, .held_out = 0}, {0},
      0);
  ASSERT_EQ(sensors.training.count(), 16);
  EXPECT_DOUBLE_EQ(sensors.training.points[0][0].item<double>(), 0.125);
  EXPECT_DOUBLE_EQ(sensors.training.points[15][1].item<double>(), 1.75);
}

TEST_F(TasksSensors, OfAFileAreThoseThatItHas) {
  const auto options =
      file("some.csv", "t,u,x\n0,1,0.5\n1,2,0.25\n2,3,0.75\n0.5,4,0.1\n");
  const auto all = read_readings(rod(), options, {0, 1}, 0);
  ASSERT_EQ(all.training.count(), 4);
  EXPECT_EQ(all.held_out.count(), 0);
  const auto order = all.training.readings.select(1, 0).argsort();
  EXPECT_TRUE(
      testing::near(all.training.points.index_select(0, order).select(1, 0),
                    torch::tensor({0.5, 0.25, 0.75, 0.1}, torch::kFloat64),
                    testing::kFloat64));
  auto half = options;
  half.held_out = 0.5;
  const auto [training, held_out] = read_readings(rod(), half, {0, 1}, 0);
  EXPECT_EQ(training.count(), 2);
  EXPECT_EQ(held_out.count(), 2);
  const auto read = std::get<0>(torch::_unique(torch::cat(
      {training.readings.select(1, 0), held_out.readings.select(1, 0)})));
  EXPECT_EQ(read.numel(), 4) << "none is in both";
}

TEST_F(TasksSensors, OneSensorIsForTraining) {
  auto options = file("one.csv", "x,t,u\n0.5,0,1\n");
  options.held_out = 0.5;
  const auto [training, held_out] = read_readings(rod(), options, {0}, 0);
  EXPECT_EQ(training.count(), 1);
  EXPECT_EQ(held_out.count(), 0);
}

TEST_F(TasksSensors, WhatAFileCannotMeanIsSaid) {
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(refusal(file("a.csv", "x,t,u\n0.5,1,1\n1.5,1,1\n")),
           "1 of 2 sensors are outside of the domain, the first at x = 1.5, t "
           "= 1: x goes from 0 to 1");
  contains(refusal(file("b.csv", "x,t,u\n0.5,-1,1\n")), "t goes from 0 to 2");
  contains(refusal(file("c.csv", "x,u\n0.5,1\n")), "a column named 't'");
  contains(refusal(file("d.csv", "x,t,T\n0.5,1,1\n")),
           "has no reading of any field");
  contains(refusal(file("e.csv", "x,t,u\n0.5,1,nan\n")), "e.csv: line 2");
  auto named = file("f.csv", "x,t,u\n0.5,1,1\n");
  named.fields = {"q"};
  contains(refusal(named, {1}), "a column named 'q'");
  const auto points = torch::full({2}, 0.5, torch::kFloat64);
  data::save_tensors(folder / "g.npz",
                     {{{"x", points}, {"t", points}, {"u", points / 0}}, ""});
  contains(refusal({.file = (folder / "g.npz").string()}),
           "2 readings of u that are not infinite");
}

TEST_F(TasksSensors, AReadingThatIsNotThereLeavesTheOthers) {
  const auto nan = std::nan("");
  const auto tensor = [](std::vector<double> values) {
    return torch::tensor(values, torch::kFloat64);
  };
  data::save_tensors(folder / "some.npz", {{{"x", tensor({0.1, 0.2, 0.3})},
                                            {"t", tensor({0, 1, 2})},
                                            {"u", tensor({1, nan, 3})},
                                            {"q", tensor({nan, 5, nan})}},
                                           ""});
  const auto read = read_readings(
      rod(), {.file = (folder / "some.npz").string(), .held_out = 0}, {0, 1},
      0);
  EXPECT_EQ(torch::isfinite(read.training.readings).sum().item<int64_t>(), 3);
}

class TasksGriddedFields : public TasksSensors {
 protected:
  // u = 10 x + t, q = -u on 3 x 2 places, by x and then t.
  void save(const Tensor& u, std::vector<double> x = {0, 0.5, 1}) {
    data::save_tensors(folder / "grid.h5",
                       {{{"x", torch::tensor(x, torch::kFloat64)},
                         {"t", torch::tensor({0., 2.}, torch::kFloat64)},
                         {"u", u},
                         {"q", -u}},
                        ""});
  }
  GriddedFields read() {
    return read_gridded_fields(folder / "grid.h5", rod());
  }

  const Tensor u = torch::tensor({0., 2., 5., 7., 10., 12.}, torch::kFloat64)
                       .reshape({3, 2});
};

TEST_F(TasksGriddedFields, AreReadInEitherOrderOfTheVariables) {
  save(u);
  const auto straight = read();
  save(u.t().contiguous());
  const auto reversed = read();
  for (const auto& truth : {straight, reversed}) {
    const auto points = truth.grid.points();
    EXPECT_TRUE(testing::near(truth.fields.select(1, 0),
                              10 * points.select(1, 0) + points.select(1, 1),
                              testing::kFloat64));
    EXPECT_TRUE(testing::near(truth.fields.select(1, 1),
                              -truth.fields.select(1, 0), testing::kFloat64));
  }
  const auto last = snapshots_of(straight, 1, 1);
  EXPECT_EQ(last.grid.shape(), (std::vector<int64_t>{3, 1}));
  EXPECT_TRUE(testing::near(
      last.fields.select(1, 0),
      10 * last.grid.points().select(1, 0) + last.grid.points().select(1, 1),
      testing::kFloat64));
}

TEST_F(TasksGriddedFields, GiveTheirNodesToSensors) {
  save(u);
  const auto sensors =
      sensors_on_grid(read(), {.count = 4, .held_out = 0.5}, {0}, 1);
  ASSERT_EQ(sensors.training.count(), 4);
  ASSERT_EQ(sensors.held_out.count(), 2);
  const auto points =
      torch::cat({sensors.training.points, sensors.held_out.points});
  EXPECT_EQ(std::get<0>(torch::unique_dim(points, 0)).size(0), 6)
      << "each node once";
  EXPECT_TRUE(testing::near(sensors.training.readings.select(1, 0),
                            10 * sensors.training.points.select(1, 0) +
                                sensors.training.points.select(1, 1),
                            testing::kFloat64));
  EXPECT_THROW(sensors_on_grid(read(), {.count = 7}, {0}, 1), DataError);
}

TEST_F(TasksGriddedFields, ThatContradictThemselvesAreRefused) {
  save(u, {0, 1, 0.5});
  EXPECT_THROW(read(), DataError) << "places that do not rise";
  save(u, {0, 1, 2});
  EXPECT_THROW(read(), DataError) << "outside of the domain";
  save(u.slice(0, 0, 2).contiguous());
  EXPECT_THROW(read(), DataError) << "too few values";
  save(u / 0);
  EXPECT_THROW(read(), DataError) << "not finite";
}

}  // namespace
}  // namespace propagator::tasks
