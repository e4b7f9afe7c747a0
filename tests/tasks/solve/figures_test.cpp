#include <torch/utils.h>

#include <cmath>

#include "propagator/core/files.h"
#include "propagator/report/report.h"
#include "propagator/tasks/solve/solve.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::near;
using testing::prepared_model;
using torch::Tensor;

// Rows know their fields; which problem draws them does not matter.
run::Experiment some_experiment() {
  return run::Experiment(config::Document::from_text(
      "task: solve\nproblem:\n  domain: 'x in [0, 1]'\n  fields: u\n"
      "  equations: u_x = 0\n  conditions: 'on x=0: u = 0'\n",
      "test"));
}

Drawing& drawing_of(const run::Experiment& experiment) {
  return dynamic_cast<Drawing&>(experiment.task());
}

TEST(TasksSolveFigures, MapsAreTheNetworksAnswerBesideTheExactSolution) {
  const run::Experiment e(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [-1, 1]', 't in [0, 2]']\n  fields: u\n"
      "  equations: u_t + 3*u_x = 0\n  conditions: ['at t=0: u = sin(x)']\n"
      "  exact: u = sin(x - 3*t)\n"
      "model: {name: pinn, width: 8}\neval: {per_axis: 4}\n",
      "test"));
  const auto model = prepared_model(e);
  const auto maps = drawing_of(e).maps(*model);
  ASSERT_TRUE(maps.has_value());
  EXPECT_EQ(maps->model, "pinn");
  EXPECT_EQ(maps->names, (std::vector<std::string>{"u"}));
  // Time to the right, x upwards: row 0 is at its largest.
  EXPECT_EQ(maps->x.label, "t");
  EXPECT_EQ(maps->x.first, 0.25);
  EXPECT_EQ(maps->x.last, 1.75);
  EXPECT_EQ(maps->y.first, 0.75);
  EXPECT_EQ(maps->y.last, -0.75);
  const auto t = torch::linspace(0.25, 1.75, 4, torch::kFloat64);
  const auto x = torch::linspace(0.75, -0.75, 4, torch::kFloat64);
  const auto grid = torch::meshgrid({x, t}, "ij");
  const torch::NoGradGuard no_grad;
  const auto points =
      torch::stack({grid[0].reshape({-1}), grid[1].reshape({-1})}, -1);
  const auto net =
      models::as_field_net(*model).values(points.unsqueeze(1)).view({1, 4, 4});
  EXPECT_TRUE(near(maps->answer, net, testing::kFloat64));
  const auto exact = (grid[0] - 3 * grid[1]).sin().unsqueeze(0);
  EXPECT_TRUE(near(maps->truth, exact, testing::kFloat64));
}

TEST(TasksSolveFigures, AGridHasTimeAsStepsAndTheFirstVariableAlongX) {
  const run::Experiment e(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: ['y in [0, 4]', 't in [0, 2]', 'x in [0, 1]']\n"
      "  fields: u\n  equations: u_t + u_x + u_y = 0\n"
      "  conditions: ['at t=0: u = sin(x)*cos(y)']\n"
      "  exact: u = sin(x - t)*cos(y - t)\n"
      "model: {name: pinn, width: 8}\neval: {per_axis: 2}\n",
      "test"));
  const auto model = prepared_model(e);
  const auto grid = drawing_of(e).grid(*model);
  ASSERT_TRUE(grid.has_value());
  EXPECT_EQ(grid->times, (std::vector<double>{0.5, 1.5}));
  ASSERT_EQ(grid->axes.size(), 2u);
  EXPECT_EQ(grid->axes[0].label, "y");
  EXPECT_EQ(grid->axes[0].first, 1);
  EXPECT_EQ(grid->axes[1].label, "x");
  std::vector<std::string> names;
  for (const auto& array : grid->arrays) names.push_back(array.name);
  EXPECT_EQ(names, (std::vector<std::string>{"u", "u_exact", "u_error",
                                             "residual_1"}));
  const auto& exact = grid->arrays[1].values;  // t, x, y
  ASSERT_EQ(exact.sizes(), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_NEAR(exact[1][0][1].item<double>(),
              std::sin(0.25 - 1.5) * std::cos(3 - 1.5), 1e-12);
  EXPECT_TRUE(near(grid->arrays[2].values, grid->arrays[0].values - exact,
                   testing::kFloat64));
}

TEST(TasksSolveFigures, OneVariableIsACurveAndNoGrid) {
  const run::Experiment e(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: 't in [0, 1]'\n  fields: u\n  equations: u_t = -u\n"
      "  conditions: 'at t=0: u = 1'\n  exact: u = exp(-t)\n"
      "model: {name: pinn, width: 8}\neval: {per_axis: 4}\n",
      "test"));
  const auto model = prepared_model(e);
  EXPECT_FALSE(drawing_of(e).grid(*model).has_value());
  const testing::TemporaryFolder folder;
  report::Report page(folder.path(), "page.html", "title", "kind");
  drawing_of(e).draw(*model, nullptr, 1, page);
  page.write();
  const auto data = read_file(folder / "figures/field-u.dat");
  for (const char* name : {"solution", "exact"}) {
    EXPECT_NE(data.find(name), std::string::npos) << data;
  }
  EXPECT_NE(data.find(fmt::format("{:.4g}", std::exp(-0.125)).substr(0, 5)),
            std::string::npos)
      << data;
  EXPECT_TRUE(fs::exists(folder / "figures/residual.dat"));
}

TEST(TasksSolveFigures, MapsOfTwoPlacesHaveTheFirstToTheRight) {
  const run::Experiment e(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 2]', 'y in [0, 1]']\n  fields: u\n"
      "  equations: u_xx + u_yy = 0\n  conditions: ['on boundary: u = x*y']\n"
      "  exact: u = x*y\n"
      "model: {name: pinn, width: 8}\neval: {per_axis: 2}\n",
      "test"));
  const auto model = prepared_model(e);
  const auto maps = drawing_of(e).maps(*model);
  ASSERT_TRUE(maps.has_value());
  EXPECT_EQ(maps->x.label, "x");
  EXPECT_EQ(maps->y.label, "y");
  // At x 0.5 and 1.5, y 0.75 above 0.25.
  const auto expected =
      torch::tensor({{0.375, 1.125}, {0.125, 0.375}}, torch::kFloat64);
  EXPECT_TRUE(near(maps->truth[0], expected, testing::kFloat64));
  // As wide as its domain, in the space of a square.
  const auto figure = report::figure_of("u", *maps);
  EXPECT_DOUBLE_EQ(figure.panel_width, 2 * figure.panel_height);
  const double square = report::HeatMaps().panel_width;
  EXPECT_DOUBLE_EQ(figure.panel_width * figure.panel_height, square * square);
}

TEST(TasksSolveFigures, MapsOfThreeVariablesAreSlicesOfTime) {
  const run::Experiment e(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 1]', 't in [0, 2]', 'y in [0, 4]']\n"
      "  fields: u\n  equations: u_t + u_x + u_y = 0\n"
      "  conditions: ['at t=0: u = sin(x)*cos(y)']\n"
      "  exact: u = sin(x - t)*cos(y - t)\n"
      "model: {name: pinn, width: 8}\neval: {per_axis: 5}\n",
      "test"));
  const auto maps = drawing_of(e).maps(*prepared_model(e));
  ASSERT_TRUE(maps.has_value());
  EXPECT_EQ(maps->names,
            (std::vector<std::string>{"u, t = 0.2", "u, t = 1", "u, t = 1.8"}));
  EXPECT_EQ(maps->x.label, "x");
  EXPECT_EQ(maps->y.label, "y");
  const auto x = torch::linspace(0.1, 0.9, 5, torch::kFloat64);
  const auto y = torch::linspace(3.6, 0.4, 5, torch::kFloat64);  // downwards
  const auto grid = torch::meshgrid({y, x}, "ij");
  std::vector<Tensor> exact;
  for (const double t : {0.2, 1.0, 1.8}) {
    exact.push_back((grid[1] - t).sin() * (grid[0] - t).cos());
  }
  EXPECT_TRUE(near(maps->truth, torch::stack(exact), testing::kFloat64));
  EXPECT_EQ(maps->answer.sizes(), maps->truth.sizes());
}

TEST(TasksSolveFigures, PointsAreShownNearTheTimesOfTheirMaps) {
  const auto even = [](double last) {
    return torch::linspace(0, last, 5, torch::kFloat64);
  };
  const TestGrid grid{.variables = {"x", "t", "y"},
                      .along = {even(1), even(8), even(2)}};
  const auto points = torch::tensor({{0.1, 0.0, 1.1},
                                     {0.2, 0.3, 1.2},
                                     {0.3, 1.0, 1.3},
                                     {0.4, 3.6, 1.4},
                                     {0.5, 8.0, 1.5}},
                                    torch::kFloat64);
  const auto plane = SolvePlane::of(grid, 1);
  EXPECT_EQ(plane->held(), 1);
  EXPECT_EQ(plane->held_values(), (std::vector<double>{0, 4, 8}));
  const auto shown = plane->near(points, 0.5);
  ASSERT_EQ(shown.size(), 3u);
  EXPECT_TRUE(near(shown[0],
                   torch::tensor({{0.1, 1.1}, {0.2, 1.2}}, torch::kFloat64),
                   testing::kFloat64));
  EXPECT_TRUE(near(shown[1], torch::tensor({{0.4, 1.4}}, torch::kFloat64),
                   testing::kFloat64));
  EXPECT_EQ(plane->near(points.slice(0, 2, 3), 0.5)[1].size(0), 0) << "none";
  EXPECT_EQ(SolvePlane::of(grid, 1, -1, 100)->held_values(),
            (std::vector<double>{0, 2, 4, 6, 8}));
}

TEST(TasksSolveFigures, EveryOtherPlaceOfAGridIsAGridWithItsRows) {
  const auto even = [](int64_t count) {
    return torch::arange(count, torch::kFloat64);
  };
  const TestGrid grid{.variables = {"x", "y", "t"},
                      .along = {even(5), even(2), even(4)}};
  const auto [part, rows] = grid.every({2, 1, 3});
  EXPECT_EQ(part.shape(), (std::vector<int64_t>{3, 2, 2}));
  EXPECT_TRUE(near(part.points(), grid.points().index_select(0, rows),
                   testing::kFloat64));
  EXPECT_EQ(part.axis(0).last, 4);
  EXPECT_EQ(part.axis(2).last, 3);
}

TEST(TasksSolveFigures, APageHasAnExplorerOfTheFields) {
  const run::Experiment e(config::Document::from_text(
      "task: solve\nprecision: fp64\nproblem:\n"
      "  domain: ['x in [0, 2]', 'y in [0, 1]']\n  fields: u\n"
      "  equations: u_xx + u_yy = 0\n  conditions: ['on boundary: u = x*y']\n"
      "  exact: u = x*y\n"
      "model: {name: pinn, width: 8}\neval: {per_axis: 2}\n",
      "test"));
  const auto model = prepared_model(e);
  const testing::TemporaryFolder folder;
  report::Report page(folder.path(), "page.html", "title", "kind");
  drawing_of(e).draw(*model, nullptr, 1, page);
  const auto text = read_file(page.write());
  EXPECT_NE(text.find("data-kind=\"fields\""), std::string::npos);
  EXPECT_NE(text.find("\"has_truth\":true"), std::string::npos);
  EXPECT_EQ(text.find("<video"), std::string::npos) << "there is no time";
}

TEST(TasksSolveFigures, RowsAreBarsBesideTheDocuments) {
  ReproducedRow row{.name = "a", .summary = {}, .history = {}};
  row.summary = {{"value", 0.5}, {"document", 0.25}};
  auto other = row;
  other.summary = {{"value", 0.125}, {"document", nullptr}};
  const std::vector rows{row, other};
  const auto figures = drawing_of(some_experiment()).draw_rows(rows);
  ASSERT_EQ(figures.size(), 1u);
  const auto& chart = std::get<report::BarChart>(figures[0].figure);
  EXPECT_EQ(chart.categories.size(), 2u);
  EXPECT_EQ(chart.bars[0].values, (std::vector<double>{0.5, 0.125}));
  EXPECT_EQ(chart.bars[1].values[0], 0.25);
  EXPECT_TRUE(std::isnan(chart.bars[1].values[1]));
}

TEST(TasksSolveFigures, RowsOfOneProblemAreOnePicture) {
  const auto row = [](const std::string& name, const std::string& subject,
                      const std::string& model) {
    ReproducedRow row{.name = name, .summary = {}, .history = {}};
    row.summary = {{"value", 0.5},
                   {"document", nullptr},
                   {"metric", "relative L2"},
                   {"mode", model == "siren" ? "published" : "honest"}};
    row.maps = [=] {
      return std::optional(report::FieldMaps{.subject = subject,
                                             .model = model,
                                             .names = {"u"},
                                             .answer = torch::ones({1, 2, 2}),
                                             .truth = torch::zeros({1, 2, 2}),
                                             .truth_name = "exact"});
    };
    return row;
  };
  auto lost = row("wave-lost", "a wave", "kan");
  lost.maps = [] { return std::nullopt; };
  const std::vector rows{
      row("heat", "heat", "pinn"),           row("wave", "a wave", "kan"),
      row("wave-best", "a wave", "kan"),     row("wave-other", "other", "kan"),
      row("wave-other-kan", "other", "kan"), row("wave-pinn", "a wave", "pinn"),
      row("wave-siren", "a wave", "siren"),  lost};
  const auto figures = drawing_of(some_experiment()).draw_rows(rows);
  ASSERT_EQ(figures.size(), 4u);
  EXPECT_EQ(figures[0].name, "solve");
  const auto titles = [&](size_t n) {
    std::string text = figures[n].name;
    const auto& maps = std::get<report::HeatMaps>(figures[n].figure);
    for (const auto& panel : maps.rows[0].panels) text += "; " + panel.title;
    return text + "; " + maps.rows[1].panels.back().title;
  };
  EXPECT_EQ(titles(1), "solve-heat; exact; heat (pinn); relative L2 5.00e-01");
  EXPECT_EQ(titles(2),
            "solve-wave; exact; wave (kan); wave-best (kan); wave-pinn; "
            "wave-siren, published; "
            "relative L2 5.00e-01");
  EXPECT_EQ(titles(3),
            "solve-wave-other; exact; wave-other (kan); wave-other-kan; "
            "relative L2 5.00e-01");
  // One row has its picture too, and no chart.
  const auto one =
      drawing_of(some_experiment()).draw_rows(std::span(rows).first(1));
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].name, "solve-heat");
}

}  // namespace
}  // namespace propagator::tasks
