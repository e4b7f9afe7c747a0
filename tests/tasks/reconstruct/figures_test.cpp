#include <torch/utils.h>

#include <cmath>
#include <sstream>

#include "propagator/core/files.h"
#include "propagator/core/process.h"
#include "propagator/data/tensor_file.h"
#include "propagator/report/report.h"
#include "propagator/tasks/reconstruct/reconstruct.h"
#include "report/page_reading.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::prepared_model;
using testing::TemporaryFolder;
using torch::Tensor;

// Its page, drawn into the folder.
std::string page_of(const run::Experiment& experiment,
                    const TemporaryFolder& folder) {
  const auto model = prepared_model(experiment);
  experiment.task().calibrate(*model);
  report::Report page(folder.path(), "page.html", "title", "kind");
  page.section("Test");
  auto& drawing = dynamic_cast<Drawing&>(experiment.task());
  drawing.draw(*model, nullptr, 1, page);
  page.section("Inside the model");
  drawing.draw_model(*model, page);
  return read_file(page.write());
}

run::Experiment rod(const std::string& more) {
  return run::Experiment(config::Document::from_text(
      "task: reconstruct\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 1]']\n  fields: u\n"
      "  equations: [u_t = 0.1*u_xx]\n"
      "  exact: [u = 3 + exp(-0.1*pi^2*t)*sin(pi*x)]\n"
      "sensors.count: 20\npoints: {per_axis: 4, validation_per_axis: 3}\n"
      "eval: {per_axis: 8}\n" +
          more,
      "test"));
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A sensor as a row of a figure's data.
std::string row_of(const Tensor& across, const Tensor& up) {
  return fmt::format("{:.9g}\t{:.9g}\n", across.item<double>(),
                     up.item<double>());
}

TEST(TasksReconstructFigures, SensorsErrorsAndDeviationsAreDrawn) {
  const TemporaryFolder folder;
  const auto e =
      rod("model: {name: gaussian_process}\nloss: {readings: heteroscedastic}\n"
          "sensors.noise: 0.2\n");
  const auto page = page_of(e, folder);
  EXPECT_TRUE(has(page, "Points are where it was read."));
  const auto sensors = sensors_of_solution(
      dynamic_cast<const Solve&>(e.task()).problem(), {.count = 20}, {0}, 0);
  const auto error = read_file(folder / "figures/field-u-2.dat");
  const auto uncertainty = read_file(folder / "figures/uncertainty-u.dat");
  for (const auto& point : sensors.training.points.unbind()) {
    EXPECT_TRUE(has(error, row_of(point[1], point[0]))) << point;
    EXPECT_TRUE(has(uncertainty, row_of(point[1], point[0]))) << point;
  }
  EXPECT_FALSE(has(error, row_of(sensors.held_out.points[0][1],
                                 sensors.held_out.points[0][0])));
  for (const char* title : {"|solution - exact|", "predicted deviation"}) {
    EXPECT_TRUE(has(uncertainty, title));
  }
  const auto calibration = read_file(folder / "figures/calibration.dat");
  EXPECT_TRUE(has(calibration, "held out, 2 readings"));
  EXPECT_TRUE(has(calibration, "trained, 20 readings"));
}

TEST(TasksReconstructFigures, WithNothingHeldOutTheTrainedCurveIsAlone) {
  const TemporaryFolder folder;
  page_of(rod("model: {name: gaussian_process}\n"
              "loss: {readings: heteroscedastic}\n"
              "sensors: {noise: 0.2, held_out: 0}\n"),
          folder);
  const auto calibration = read_file(folder / "figures/calibration.dat");
  EXPECT_FALSE(has(calibration, "held out"));
  EXPECT_TRUE(has(calibration, "trained, 20 readings"));
}

run::Experiment decay(const std::string& more) {
  return run::Experiment(config::Document::from_text(
      "task: reconstruct\nprecision: fp64\nproblem:\n"
      "  domain: ['t in [0, 2]']\n  fields: [u, w]\n"
      "  equations: [u_t = -u, w_t = u]\n"
      "points: {per_axis: 8, validation_per_axis: 4}\neval: {per_axis: 9}\n"
      "model: {name: gaussian_process}\n" +
          more,
      "test"));
}

// The rows of a block of a figure's data, each as its numbers.
std::vector<std::vector<double>> rows_of(const std::string& data,
                                         const std::string& title) {
  std::vector<std::vector<double>> rows;
  const size_t at = data.find("] " + title + "\n");
  if (at == std::string::npos) return rows;
  std::istringstream lines(data.substr(at, data.find("\n\n", at) - at));
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("#") || line.starts_with("]")) continue;
    std::istringstream words(line);
    rows.emplace_back();
    for (double number; words >> number;) rows.back().push_back(number);
  }
  return rows;
}

TEST(TasksReconstructFigures, OneVariableHasBandsAboutItsCurve) {
  const TemporaryFolder folder;
  const auto e = decay(
      "problem.exact: [u = exp(-t), w = 2 - exp(-t)]\n"
      "loss: {readings: heteroscedastic}\n"
      "sensors: {count: 12, noise: 0.1, held_out: 0.25, fields: [u]}\n");
  page_of(e, folder);
  const auto data = read_file(folder / "figures/uncertainty-u.dat");
  const auto wide = rows_of(data, "95 % of readings");
  const auto narrow = rows_of(data, "50 %");
  const auto curve = rows_of(data, "solution");
  const auto truth = rows_of(data, "exact");
  ASSERT_EQ(wide.size(), 9u) << data;
  ASSERT_EQ(narrow.size(), 9u);
  ASSERT_EQ(curve.size(), 9u);
  ASSERT_EQ(truth.size(), 9u);
  for (size_t n = 0; n < wide.size(); ++n) {
    EXPECT_NEAR((wide[n][1] + wide[n][2]) / 2, curve[n][1], 1e-6);
    EXPECT_NEAR(truth[n][1], std::exp(-truth[n][0]), 1e-8);
    // The reach of a normal number: 1.959964 and 0.674490 deviations.
    EXPECT_NEAR((wide[n][2] - wide[n][1]) / (narrow[n][2] - narrow[n][1]),
                1.959964 / 0.674490, 1e-4);
    EXPECT_GT(wide[n][2], wide[n][1]);
  }
  EXPECT_EQ(rows_of(data, "readings").size(), 12u);
  EXPECT_EQ(rows_of(data, "held out").size(), 3u);
  EXPECT_FALSE(has(read_file(folder / "figures/field-w.dat"), "readings"));
  EXPECT_FALSE(fs::exists(folder / "figures/uncertainty-w.dat"));
  if (report::FigureFolder::can_draw()) {
    EXPECT_TRUE(fs::exists(folder / "figures/uncertainty-u.svg"));
  }
}

TEST(TasksReconstructFigures, OneVariableWithoutTruthOrVarianceIsDrawnToo) {
  for (const bool variance : {false, true}) {
    const TemporaryFolder folder;
    // Of w nothing but empty cells: it is never read.
    write_file_atomically(folder / "r.csv",
                          "t,u,w\n0,1,\n0.5,0.6,\n1,0.37,\n1.5,0.2,\n");
    page_of(
        decay(fmt::format("loss: {{readings: {}}}\n"
                          "sensors: {{file: '{}', held_out: 0, fields: [u]}}\n",
                          variance ? "heteroscedastic" : "mse",
                          (folder / "r.csv").string())),
        folder);
    EXPECT_EQ(fs::exists(folder / "figures/uncertainty-u.dat"), variance);
    EXPECT_TRUE(fs::exists(folder / "figures/field-u.dat"));
    if (!variance) continue;
    const auto data = read_file(folder / "figures/uncertainty-u.dat");
    EXPECT_EQ(rows_of(data, "95 % of readings").size(), 9u);
    EXPECT_EQ(rows_of(data, "readings").size(), 4u);
    EXPECT_FALSE(has(data, "held out"));
    EXPECT_FALSE(has(data, "exact"));
    if (report::FigureFolder::can_draw()) {
      EXPECT_TRUE(fs::exists(folder / "figures/uncertainty-u.svg"));
    }
  }
}

TEST(TasksReconstructFigures, WithoutAVarianceThereIsNoCalibration) {
  const TemporaryFolder folder;
  page_of(rod("model: {name: pinn, width: 8}\n"), folder);
  EXPECT_FALSE(fs::exists(folder / "figures/calibration.dat"));
  EXPECT_FALSE(fs::exists(folder / "figures/uncertainty-u.dat"));
  EXPECT_FALSE(fs::exists(folder / "figures/sensor-attention.gp"));
  EXPECT_TRUE(fs::exists(folder / "figures/field-u-1.dat"));
}

TEST(TasksReconstructFigures, APgtShowsItsAttention) {
  const TemporaryFolder folder;
  page_of(rod("model: {name: pgt, width: 8, heads: 2, layers: 1, "
              "decoder_width: 8}\n"),
          folder);
  const auto data = read_file(folder / "figures/sensor-attention-2.dat");
  EXPECT_TRUE(has(data, "Green's function alone"));
  EXPECT_TRUE(has(data, "layer 1"));
}

TEST(TasksReconstructFigures, TheCoverageCurveIsInTheResult) {
  const auto e =
      rod("model: {name: gaussian_process}\nloss: {readings: heteroscedastic}\n"
          "sensors: {noise: 0.2, held_out: 0.5}\n");
  const auto model = prepared_model(e);
  e.task().calibrate(*model);
  const auto evaluation = e.task().evaluate(*model, data::Split::kTest);
  const auto& fit = evaluation.numbers.at("held_out_fit");
  const auto& curve = fit.at("coverage_curve");
  ASSERT_EQ(curve.at("predicted").size(), curve.at("observed").size());
  double off = 0;
  for (size_t n = 0; n < curve.at("predicted").size(); ++n) {
    const double share = curve.at("predicted")[n];
    const double inside = curve.at("observed")[n];
    off += std::abs(inside - share);
    if (std::abs(share - 0.5) < 1e-9) {
      EXPECT_EQ(inside, fit.at("coverage").at("50").get<double>());
    }
  }
  EXPECT_NEAR(fit.at("calibration_error").get<double>(),
              off / static_cast<double>(curve.at("predicted").size()), 1e-12);
  EXPECT_TRUE(has(evaluation.table.text(), "calibration error"));
}

// u moves, p is never read; the truth is a file of 30 times, of which the test
// takes 2.
class TasksReconstructOverTime : public ::testing::Test {
 protected:
  TasksReconstructOverTime() {
    const auto grid = torch::meshgrid({x, y, t}, "ij");
    data::save_tensors(folder / "truth.h5",
                       {{{"x", x},
                         {"y", y},
                         {"t", t},
                         {"u", (grid[0] - grid[2]).sin() + grid[1]},
                         {"p", grid[0] * grid[1] + 7 * grid[2]}},
                        ""});
  }
  run::Experiment experiment(const std::string& more) const {
    return run::Experiment(config::Document::from_text(
        "task: reconstruct\nprecision: fp64\nproblem:\n"
        "  domain: ['x in [0, 1]', 'y in [0, 1]', 't in [0, 10]']\n"
        "  fields: [u, p]\n  equations: [u_t + u_x = p_x + u_y]\n"
        "truth: {file: '" +
            (folder / "truth.h5").string() +
            "', snapshots: 2}\nmodel: {name: pinn, width: 8}\n"
            "points: {per_axis: 2, validation_per_axis: 2}\n" +
            more,
        "test"));
  }
  static Tensor even(double last, int64_t count) {
    return torch::linspace(0, last, count, torch::kFloat64);
  }

  const TemporaryFolder folder;
  const Tensor x = even(1, 5), y = even(1, 4), t = even(10, 30);
};

TEST_F(TasksReconstructOverTime, SensorsAreDrawnNearTheTimesThatAreShown) {
  const auto e = experiment("sensors: {count: 200, fields: [u]}\n");
  const auto page = page_of(e, folder);
  EXPECT_TRUE(has(page, "within 0.25 of the t shown"));
  EXPECT_TRUE(has(page, "It is never read."));
  const auto truth = read_gridded_fields(
      folder / "truth.h5", dynamic_cast<const Solve&>(e.task()).problem());
  const auto sensors =
      sensors_on_grid(truth, {.count = 200, .fields = {"u"}}, {0}, 0).training;
  const double first = t[7].item<double>();
  const auto when = sensors.points.select(1, 2);
  const auto shown = ((when - first).abs() <= 0.25).sum().item<int64_t>() +
                     ((when - t[22]).abs() <= 0.25).sum().item<int64_t>();
  ASSERT_GT(shown, 0);
  const auto data = read_file(folder / "figures/field-u-2.dat");
  int64_t rows = 0;
  for (size_t at = data.find("points\n"); at != std::string::npos;
       at = data.find("points\n", at + 1)) {
    const auto begin = data.find("# x\ty\n", at) + 6;
    const auto block = data.substr(begin, data.find("\n\n", begin) - begin);
    rows += std::ranges::count(block, '\n') + 1;
  }
  EXPECT_EQ(rows, shown);
  EXPECT_FALSE(has(read_file(folder / "figures/field-p-2.dat"), "points"));
}

TEST_F(TasksReconstructOverTime, AnInstantWithoutSensorsIsDrawnWithoutThem) {
  // The test is at 2.4 and 7.6: two readings at one of them, or none.
  for (const auto& [when, text] :
       {std::pair{"5", "It was read nowhere within 0.25 of the t shown."},
        {"7.5", "Points are where it was read within 0.25 of the t shown."}}) {
    write_file_atomically(
        folder / "readings.csv",
        fmt::format("x,y,t,u\n0.5,0.5,{0},1\n0.2,0.3,{0},2\n", when));
    const auto page =
        page_of(experiment("sensors: {held_out: 0, file: '" +
                           (folder / "readings.csv").string() + "'}\n"),
                folder);
    EXPECT_TRUE(has(page, text)) << when;
    const auto data = read_file(folder / "figures/field-u-2.dat");
    EXPECT_EQ(has(data, "0.2\t0.3\n"), std::string("7.5") == when) << data;
    if (report::FigureFolder::can_draw()) {
      EXPECT_TRUE(fs::exists(folder / "figures/field-u.png"));
    }
  }
}

TEST_F(TasksReconstructOverTime, TheExplorerHasTheSensorsOfEachFrame) {
  // Frames are 10/29 apart; the third reading is nearer to the second of them.
  write_file_atomically(folder / "readings.csv",
                        "x,y,t,u\n0.5,1,0,1\n0.25,0,0.1,2\n1,0.5,0.2,3\n");
  const auto page =
      page_of(experiment("sensors: {held_out: 0, file: '" +
                         (folder / "readings.csv").string() + "'}\n"),
              folder);
  EXPECT_TRUE(has(page,
                  "Rings are where a field was read within half a step of "
                  "the t shown."));
  const auto data = testing::explored(page);
  const auto& u = data.at("cases")[0].at("sensors");
  ASSERT_EQ(u.size(), 30u);
  // Columns of x, and rows of y from above.
  EXPECT_EQ(u[0], nlohmann::json({2.0, 0.0, 1.0, 3.0}));
  EXPECT_EQ(u[1], nlohmann::json({4.0, 1.5}));
  for (size_t frame = 2; frame < 30; ++frame) EXPECT_TRUE(u[frame].empty());
  for (const auto& frame : data.at("cases")[1].at("sensors")) {
    EXPECT_TRUE(frame.empty());
  }
}

TEST_F(TasksReconstructOverTime, AReaderSeesMoreTimesThanTheTest) {
  const auto page =
      page_of(experiment("sensors: {count: 50, fields: [u]}\n"), folder);
  const auto data = testing::explored(page);
  ASSERT_EQ(data.at("times").size(), 30u);
  EXPECT_EQ(data.at("time_label"), "t");
  ASSERT_EQ(data.at("cases").size(), 2u);
  EXPECT_EQ(data.at("cases")[0].at("name"), "u");
  const auto& p = data.at("cases")[1];
  // p is known up to a function of time: x y without its mean is left of it.
  const auto values =
      testing::unpacked(data, p.at("values"), p.at("low"), p.at("high"));
  // Rows from above: the top right of every frame is x = y = 1.
  for (size_t frame = 0; frame < 30; ++frame) {
    EXPECT_NEAR(values[frame * 20 + 4], 0.75, 1e-3);
  }
  if (!find_program("ffmpeg").empty()) {
    EXPECT_TRUE(has(page, "data:video/mp4"));
  }
}

}  // namespace
}  // namespace propagator::tasks
