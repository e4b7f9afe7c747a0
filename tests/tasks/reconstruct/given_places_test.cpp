#include <torch/utils.h>

#include <cmath>
#include <fstream>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/data/tensor_file.h"
#include "propagator/run/experiment.h"
#include "propagator/tasks/reconstruct/sensors.h"
#include "testing.h"

// Sensors at places in a file, which read a known field.

namespace propagator::tasks {
namespace {

using torch::Tensor;

pde::Problem wave() {
  return pde::Problem::parse(
      {.domain = {"x in [0, 1]", "t in [0, 2]"},
       .fields = {"u", "q"},
       .equations = {"u_t = -q_x", "q = -u_x"},
       .exact = {"u = sin(3*x)*exp(-t)", "q = -3*cos(3*x)*exp(-t)"}},
      pde::Posed::kByReadings);
}

Tensor truth_of_u(const Tensor& points) {
  return torch::sin(3 * points.select(1, 0)) * torch::exp(-points.select(1, 1));
}

class TasksGivenPlaces : public ::testing::Test {
 protected:
  SensorOptions places(const std::string& text) {
    std::ofstream(folder / "places.csv") << text;
    return {.placement = Placement::kGiven,
            .positions = (folder / "places.csv").string(),
            .held_out = 0};
  }
  // The truth of u, and q = -u, at so many even places.
  GriddedFields grid(int64_t along_x, int64_t along_t, double last_x = 1) {
    GriddedFields truth;
    truth.grid.variables = {"x", "t"};
    truth.grid.along = {torch::linspace(0, last_x, along_x, torch::kFloat64),
                        torch::linspace(0, 2, along_t, torch::kFloat64)};
    const auto u = truth_of_u(truth.grid.points());
    truth.fields = torch::stack({u, -u}, 1);
    return truth;
  }
  std::string refusal(const std::string& text,
                      const std::optional<GriddedFields>& truth = {}) {
    return testing::thrown<DataError>([&] {
      sensors_at_places(wave(), truth, places(text), {0, 1}, 0);
    });
  }

  testing::TemporaryFolder folder;
};

TEST_F(TasksGivenPlaces, ReadASolutionThere) {
  const auto split = sensors_at_places(
      wave(), {}, places("t,x\n0,0.5\n2,0.25\n1.5,1\n"), {0}, 0);
  ASSERT_EQ(split.training.count(), 3);
  EXPECT_EQ(split.held_out.count(), 0);
  const auto& [points, readings] = split.training;
  EXPECT_TRUE(testing::near(std::get<0>(points.select(1, 0).sort()),
                            torch::tensor({0.25, 0.5, 1.}, torch::kFloat64),
                            testing::kFloat64));
  EXPECT_TRUE(
      testing::near(readings.select(1, 0), truth_of_u(points), {0, 1e-12}));
  EXPECT_TRUE(torch::isnan(readings.select(1, 1)).all().item<bool>())
      << "q is not read";
}

// At nodes exactly, between them as splines of their spacing do.
TEST_F(TasksGivenPlaces, ReadATruthOnAGridBetweenItsNodes) {
  const auto truth = grid(21, 41);
  const std::string text = "x,t\n0,0\n0.35,1.95\n1,2\n0.05,0.1\n";
  const auto nodes =
      sensors_at_places(wave(), truth, places(text), {0, 1}, 0).training;
  EXPECT_TRUE(testing::near(nodes.readings.select(1, 0),
                            truth_of_u(nodes.points), {0, 1e-12}));
  EXPECT_TRUE(testing::near(nodes.readings.select(1, 1),
                            -nodes.readings.select(1, 0), {0, 1e-12}));
  const auto between =
      sensors_at_places(wave(), truth, places("x,t\n0.33,1.01\n0.5123,0.777\n"),
                        {0}, 0)
          .training;
  EXPECT_TRUE(testing::near(between.readings.select(1, 0),
                            truth_of_u(between.points), {0, 1e-5}));
  EXPECT_FALSE(testing::near(between.readings.select(1, 0),
                             truth_of_u(between.points), {0, 1e-12}))
      << "no node is there";
}

// Of fewer than four places a line goes from one to the next, of one the value
// holds.
TEST_F(TasksGivenPlaces, ReadCoarseTruthsAlongLines) {
  auto truth = grid(3, 1);  // x = 0, 0.5, 1 at t = 0
  const auto found =
      sensors_at_places(wave(), truth, places("x,t\n0.25,0\n1,0\n0.9,0\n"), {0},
                        0)
          .training;
  const auto x = found.points.select(1, 0);
  const double middle = std::sin(1.5), last = std::sin(3);
  const auto expected = torch::where(
      x < 0.5, x / 0.5 * middle, middle + (x - 0.5) / 0.5 * (last - middle));
  EXPECT_TRUE(testing::near(found.readings.select(1, 0), expected, {0, 1e-12}));
}

TEST_F(TasksGivenPlaces, OfAnyFormatHaveNoiseAndAreHeldOut) {
  const auto x = torch::linspace(0, 1, 4000, torch::kFloat64);
  SensorOptions options{.placement = Placement::kGiven,
                        .positions = (folder / "places.npz").string(),
                        .noise = 0.1,
                        .held_out = 0.25};
  data::save_tensors(options.positions, {{{"x", x}, {"t", 2 * x}}, ""});
  const auto noisy = sensors_at_places(wave(), {}, options, {0}, 5);
  ASSERT_EQ(noisy.training.count(), 3000);
  ASSERT_EQ(noisy.held_out.count(), 1000);
  options.noise = 0;
  const auto exact = sensors_at_places(wave(), {}, options, {0}, 5);
  EXPECT_TRUE(torch::equal(noisy.training.points, exact.training.points));
  const auto added = noisy.training.readings - exact.training.readings;
  const auto of_u = [](const Tensor& some) {
    return some.select(1, 0).std().item<double>();
  };
  EXPECT_NEAR(of_u(added) / of_u(exact.training.readings), 0.1, 5e-3);
  options.count = 12;
  EXPECT_EQ(sensors_at_places(wave(), {}, options, {0}, 5).training.count(), 9);
}

TEST_F(TasksGivenPlaces, OutsideOfWhatIsKnownAreRefusedWithTheFirst) {
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(refusal("x,t\n0.5,1\n1.5,1\n"),
           "1 of 2 sensors are outside of the domain, the first at x = 1.5, t "
           "= 1: x goes from 0 to 1");
  contains(refusal("x,t\n0.5,-1\n"), "t goes from 0 to 2");
  contains(refusal("x,t\n0.4,1\n0.75,1\n", grid(9, 9, 0.5)),
           "1 of 2 sensors are where the truth is not known, the first at x = "
           "0.75: its x goes from 0 to 0.5");
  contains(refusal("x\n0.4\n"), "expected a column named 't'");
  contains(refusal("x,t\n0.4,\n"), "expected a finite number for 't'");
}

TEST_F(TasksGivenPlaces, KeysThatContradictThemAreNamed) {
  const auto said = [](const std::string& keys) {
    return testing::thrown<ConfigError>([&] {
      run::Experiment(config::Document::from_text(
          "task: reconstruct\nproblem: {domain: ['x in [0, 1]'], fields: u, "
          "equations: [u_x = 1], exact: [u = x]}\nsensors: {" +
              keys + "}\n",
          "test"));
    });
  };
  const auto contains = [&](const std::string& keys, const std::string& part) {
    const auto text = said(keys);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains("placement: given", "but no place is");
  contains("positions: a.csv", "places in a file are used where it is given");
  contains("placement: given, positions: a.csv, file: b.csv",
           "stand where the file says");
}

TEST_F(TasksGivenPlaces, AreThoseOfATraining) {
  places("x\n0.125\n0.5\n0.75\n");
  const run::Experiment e(config::Document::from_text(
      "task: reconstruct\nproblem: {domain: ['x in [0, 1]'], fields: u, "
      "equations: [u_x = 1], exact: [u = x]}\nmodel: {name: pinn, width: 4, "
      "layers: 1}\nsensors: {placement: given, held_out: 0, positions: " +
          (folder / "places.csv").string() + "}\n",
      "test"));
  const auto lines = e.task().inspect();
  EXPECT_EQ(lines.back(), "3 sensors that train, 0 that validate; read: u");
}

}  // namespace
}  // namespace propagator::tasks
