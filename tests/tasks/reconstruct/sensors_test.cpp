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
  const auto [training, held_out, noise] =
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
  const auto [training, held_out, noise] =
      read_readings(rod(), half, {0, 1}, 0);
  EXPECT_EQ(training.count(), 2);
  EXPECT_EQ(held_out.count(), 2);
  const auto read = std::get<0>(torch::_unique(torch::cat(
      {training.readings.select(1, 0), held_out.readings.select(1, 0)})));
  EXPECT_EQ(read.numel(), 4) << "none is in both";
}

TEST_F(TasksSensors, OneSensorIsForTraining) {
  auto options = file("one.csv", "x,t,u\n0.5,0,1\n");
  options.held_out = 0.5;
  const auto [training, held_out, noise] =
      read_readings(rod(), options, {0}, 0);
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
  contains(refusal(file("e.csv", "x,t,u\n0.5,1,nan\n")),
           "e.csv has no reading of any field");
  contains(refusal(file("e.csv", "x,t,u\n0.5,1,inf\n")), "e.csv: line 2");
  contains(refusal(file("e.csv", "x,t,u\n0.5,1,1\n,1,1\n")),
           "e.csv: line 3, column 1: expected a finite number for 'x', got ''");
  contains(refusal(file("e.csv", "x,t,u\n0.5,nan,1\n")),
           "e.csv: line 2, column 2: expected a finite number for 't'");
  contains(refusal(file("e.csv", "")), "the file ends");
  contains(refusal(file("e.csv", "x,t,u\n")), "numbers below the names");
  auto named = file("f.csv", "x,t,u\n0.5,1,1\n");
  named.fields = {"q"};
  contains(refusal(named, {1}), "a column named 'q'");
  const auto points = torch::full({2}, 0.5, torch::kFloat64);
  data::save_tensors(folder / "g.npz",
                     {{{"x", points}, {"t", points}, {"u", points / 0}}, ""});
  contains(refusal({.file = (folder / "g.npz").string()}),
           "reading 1 of u is infinite");
  data::save_tensors(folder / "h.npz",
                     {{{"x", points / 0}, {"t", points}, {"u", points}}, ""});
  contains(refusal({.file = (folder / "h.npz").string()}),
           "'x' has a value that is not finite, in row 1");
}

// 19.9 is 199 steps of 0.1 but for rounding, and 0.1 in single precision is
// less than in double.
TEST_F(TasksSensors, PlacesRoundedOverTheEndAreAtTheEnd) {
  const auto read = read_readings(
      rod(), file("a.csv", "x,t,u\n1.0000001,-1e-8,1\n0.5,2.000001,1\n"),
      {0, 1}, 0);
  EXPECT_EQ(read.training.points.select(1, 0).max().item<double>(), 1);
  EXPECT_EQ(read.training.points.select(1, 1).min().item<double>(), 0);
  EXPECT_EQ(read.training.points.select(1, 1).max().item<double>(), 2);
  EXPECT_NE(refusal(file("b.csv", "x,t,u\n1.00001,0,1\n")), "");
}

TEST_F(TasksSensors, AReadingThatIsNotThereLeavesTheOthers) {
  const auto nan = std::nan("");
  const auto tensor = [](std::vector<double> values) {
    return torch::tensor(values, torch::kFloat64);
  };
  data::save_tensors(folder / "some.h5", {{{"x", tensor({0.1, 0.2, 0.3})},
                                           {"t", tensor({0, 1, 2})},
                                           {"u", tensor({1, nan, 3})},
                                           {"q", tensor({nan, 5, nan})}},
                                          ""});
  const auto of_arrays = read_readings(
      rod(), {.file = (folder / "some.h5").string(), .held_out = 0}, {0, 1}, 0);
  testing::Lines lines;
  const ObserverScope scope(lines);
  const auto of_text = read_readings(
      rod(), file("some.csv", "x,t,u,q\n0.1,0,1,\n0.2,1,nan,5\n0.3,2,3,NaN\n"),
      {0, 1}, 0);
  EXPECT_EQ(torch::isfinite(of_arrays.training.readings).sum().item<int64_t>(),
            3);
  EXPECT_TRUE(torch::equal(of_text.training.points, of_arrays.training.points));
  EXPECT_TRUE(torch::allclose(of_text.training.readings,
                              of_arrays.training.readings, 0, 0,
                              /*equal_nan=*/true));
  ASSERT_EQ(lines.infos.size(), 1U);
  EXPECT_NE(lines.infos[0].find("3 of 6 readings are missing"),
            std::string::npos);
}

TEST_F(TasksSensors, AFieldWithoutAnyReadingIsAnErrorWhereItWasAskedFor) {
  auto options = file("a.csv", "x,t,u,q\n0.1,0,1,\n0.2,1,2,nan\n");
  EXPECT_EQ(read_readings(rod(), options, {0, 1}, 0).training.count(), 2);
  options.fields = {"u", "q"};
  EXPECT_NE(refusal(options).find("has no reading of q: all are NaN"),
            std::string::npos);
}

TEST_F(TasksSensors, SensorsInOnePlaceThatDisagreeAreToldWithHowFar) {
  const auto warnings = [&](const std::string& text) {
    testing::Lines lines;
    const ObserverScope scope(lines);
    read_readings(rod(), file("twice.csv", text), {0, 1}, 0);
    return lines.warnings;
  };
  const auto differ =
      warnings("x,t,u\n0.5,1,1\n0.5,1,1.25\n0.2,1,3\n0.5,1,0.5\n");
  ASSERT_EQ(differ.size(), 1U);
  EXPECT_NE(differ[0].find("2 sensors stand where another does, with readings "
                           "that differ by up to 0.5 (at x = 0.5, t = 1)"),
            std::string::npos)
      << differ[0];
  const auto agree = warnings("x,t,u\n0.5,1,1\n0.5,1,1\n");
  ASSERT_EQ(agree.size(), 1U);
  EXPECT_NE(agree[0].find("1 sensors stand where another does"),
            std::string::npos);
  EXPECT_TRUE(warnings("x,t,u\n0.5,1,1\n0.5,0.5,2\n").empty());
}

TEST_F(TasksSensors, MoreThanThereAreAreAllAndIsTold) {
  auto options = file("few.csv", "x,t,u\n0.5,1,1\n0.25,1,2\n");
  options.count = 5;
  testing::Lines lines;
  const ObserverScope scope(lines);
  EXPECT_EQ(read_readings(rod(), options, {0, 1}, 0).training.count(), 2);
  ASSERT_EQ(lines.warnings.size(), 1U);
  EXPECT_NE(lines.warnings[0].find(
                "it has 2 sensors, fewer than sensors.count = 5: all are used"),
            std::string::npos);
}

// One of three sensors has a reading, and one trains: with every seed it has
// one, or it is said that it has none.
TEST_F(TasksSensors, WhereNothingIsLeftToTrainItIsSaid) {
  auto options = file("few.csv", "x,t,u,q\n0.5,1,1,\n0.25,1,,\n0.75,1,,\n");
  options.held_out = 0.7;
  int refused = 0;
  for (int64_t seed = 0; seed < 20; ++seed) {
    try {
      const auto read = read_readings(rod(), options, {0, 1}, seed);
      EXPECT_TRUE(torch::isfinite(read.training.readings).any().item<bool>());
    } catch (const DataError& error) {
      ++refused;
      EXPECT_NE(std::string(error.what())
                    .find("the 1 sensors that train have no reading"),
                std::string::npos)
          << error.what();
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 20);
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
  const auto order = testing::thrown<DataError>([&] { read(); });
  EXPECT_NE(order.find("expected numbers of x that rise, got 0.5 behind 1"),
            std::string::npos)
      << order;
  save(u, {0, 1, 2});
  EXPECT_THROW(read(), DataError) << "outside of the domain";
  save(u.slice(0, 0, 2).contiguous());
  EXPECT_THROW(read(), DataError) << "too few values";
  save(u / 0);
  EXPECT_THROW(read(), DataError) << "not finite";
}

TEST_F(TasksGriddedFields, ThatCoverAPartOfTheDomainSaySo) {
  const auto warnings = [&] {
    testing::Lines lines;
    const ObserverScope scope(lines);
    read();
    return lines.warnings;
  };
  save(u);
  EXPECT_TRUE(warnings().empty());
  save(u, {-1e-9, 0.5, 1 + 1e-9});  // rounded: the ends of the domain
  EXPECT_TRUE(warnings().empty());
  EXPECT_EQ(read().grid.along[0][0].item<double>(), 0);
  EXPECT_EQ(read().grid.along[0][2].item<double>(), 1);
  save(u, {0.125, 0.375, 0.75});  // half a cell at either end is none
  EXPECT_TRUE(warnings().empty());
  save(u, {0, 0.25, 0.5});
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_NE(
      warnings()[0].find("x goes from 0 to 0.5, and in problem.domain "
                         "from 0 to 1: the test says nothing of the rest"),
      std::string::npos)
      << warnings()[0];
}

}  // namespace
}  // namespace propagator::tasks
