#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/models/pinn.h"
#include "propagator/pde/residual/problem_checks.h"
#include "propagator/pde/residual/problem_points.h"
#include "propagator/report/vtk.h"
#include "propagator/run/run.h"
#include "propagator/tasks/solve/solve.h"
#include "propagator/train/flat_parameters.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {
namespace {

using testing::kDouble;
using testing::near;
using testing::prepared_model;
using torch::Tensor;

constexpr const char* kDisk =
    "task: solve\nprecision: fp64\nproblem:\n"
    "  domain: ['x in [-1, 1]', 'y in [-1, 1]']\n  fields: u\n"
    "  shapes: ['plate = disk(0, 0, 1)', 'hole = disk(0.3, 0, 0.2)']\n"
    "  inside: plate - hole\n";

run::Experiment in_disk(const std::string& rest) {
  return run::Experiment(config::Document::from_text(kDisk + rest, "test"));
}

// Heat in a ring that is cooled outside and insulated within.
class TasksSolveShapes : public ::testing::Test {
 protected:
  SolvePoints points(pde::Sampling sampling = pde::Sampling::kSobol,
                     bool adaptive = true) const {
    return {problem,
            conditions,
            {.sampling = sampling,
             .per_axis = 7,
             .resample_every = 2,
             .adaptive = adaptive},
            {},
            0,
            3,
            kDouble};
  }
  static std::shared_ptr<models::FieldNet> network() {
    models::PinnOptions options;
    options.width = 12;
    const auto net = options.make({{-1, -1, 0}, {1, 1, 2}, 1, 2});
    net->initialise(3);
    net->to(torch::kFloat64);
    return net;
  }
  static Tensor radius(const Tensor& windows, double x = 0) {
    const auto at = windows.select(1, 0);
    return ((at.select(1, 0) - x).square() + at.select(1, 1).square()).sqrt();
  }
  // The ring, and times, hold all of them.
  static void expect_inside(const SolvePoints& points) {
    for (const auto split : {data::Split::kTrain, data::Split::kValidation}) {
      const auto& all = points.of(split);
      EXPECT_LT(radius(all).max().item<double>(), 1);
      EXPECT_GT(radius(all, 0.3).min().item<double>(), 0.2);
    }
    EXPECT_EQ(points.of(data::Split::kTrain).size(0), 343);
    for (const auto& face : points.faces()) {
      EXPECT_EQ(face.windows.size(0), 49);
      const auto times = face.windows.select(1, 0).select(1, 2);
      if (face.condition->variable == 2) {
        EXPECT_EQ(times.abs().max().item<double>(), 0);
        EXPECT_GT(radius(face.windows, 0.3).min().item<double>(), 0.2);
        continue;
      }
      EXPECT_GT((times.max() - times.min()).item<double>(), 1.8);
      const bool hole = face.condition->shape == 1;
      const auto apart =
          radius(face.windows, hole ? 0.3 : 0) - (hole ? 0.2 : 1);
      EXPECT_LT(apart.abs().max().item<double>(), 1e-12);
      const auto at = face.windows.select(1, 0).narrow(1, 0, 2);
      const auto outward = hole ? (torch::tensor({0.3, 0.0}) - at) / 0.2 : at;
      EXPECT_TRUE(near(face.normals, outward, {1e-6, 1e-6}));
    }
  }

  const pde::Problem problem = pde::Problem::parse(
      {.domain = {"x in [-1, 1]", "y in [-1, 1]", "t in [0, 2]"},
       .fields = {"u"},
       .equations = {"u_t = 0.1*(u_xx + u_yy)"},
       .conditions = {"at t=0: u = 1 - x^2 - y^2", "on plate: u = 0",
                      "on hole: u_n + u = x*n_y"},
       .shapes = {"plate = disk(0, 0, 1)", "hole = disk(0.3, 0, 0.2)"},
       .inside = "plate - hole"});
  const SolveConditions conditions{problem, HardConstraints::kNo};
  const pde::Residuals residuals{problem, pde::Derivatives::kHonest, kDouble};
};

TEST_F(TasksSolveShapes, PointsLieInsideAndOnTheEdgesAtAllTimes) {
  for (const auto sampling : {pde::Sampling::kSobol, pde::Sampling::kUniform,
                              pde::Sampling::kLatinHypercube}) {
    for (const bool adaptive : {true, false}) {
      auto some = points(sampling, adaptive);
      expect_inside(some);
      const auto first = some.faces()[2].windows.clone();
      const auto normals = some.faces()[2].normals;
      const auto net = network();
      some.begin_step(*net, residuals, 2);
      expect_inside(some);
      EXPECT_FALSE(torch::equal(some.faces()[2].windows, first));
      EXPECT_TRUE(some.faces()[2].normals.is_same(normals));  // in place
      // Another one that goes on from there has them too.
      auto later = points(sampling, adaptive);
      later.restore(some.state());
      EXPECT_TRUE(torch::equal(later.faces()[2].normals, normals));
    }
  }
}

TEST_F(TasksSolveShapes, NormalDerivativesAreThoseOfTheNetwork) {
  const auto net = network();
  const auto some = points();
  const auto& face = some.faces()[2];
  const torch::NoGradGuard no_grad;
  const auto left = residuals.of_faces(*net, {face})[0][0].flatten();
  constexpr double kStep = 1e-5;
  auto aside = torch::zeros_like(face.windows);
  aside.select(1, 0).narrow(1, 0, 2).copy_(kStep * face.normals);
  const auto u = [&](const Tensor& at) { return net->values(at).flatten(); };
  const auto slope =
      (u(face.windows + aside) - u(face.windows - aside)) / (2 * kStep);
  const auto x = face.windows.select(1, 0).select(1, 0);
  EXPECT_TRUE(near(left,
                   slope + u(face.windows) - x * face.normals.select(1, 1),
                   {1e-7, 1e-7}));
}

TEST_F(TasksSolveShapes, LeastSquaresAreTheLossOnShapesToo) {
  SolveLoss loss(problem, conditions, {.equation = 2, .boundary = 5});
  loss.prepare(pde::Derivatives::kHonest, 0, kDouble);
  const auto some = points();
  const auto net = network();
  train::FlatParameters flat(*net);
  const auto all = loss.at(*net, some, data::Split::kTrain,
                           torch::arange(343, torch::kInt64));
  flat.add_gradient_of(all.total, 1);
  const auto squares = loss.least_squares(*net, some, &flat.values());
  const auto& r = squares.residuals;
  EXPECT_EQ(r.numel(), 343 + 3 * 49);
  EXPECT_NEAR(r.dot(r).item<double>(), all.total.item<double>(),
              1e-12 * all.total.item<double>());
  const auto gradient = 2 * squares.jacobian.mv(r);
  const double size = gradient.abs().max().item<double>();
  EXPECT_TRUE(near(gradient, flat.gradients(), {0, 1e-12 * size}));
}

TEST(TasksSolveCorners, FactorsOfTheirTermsAreTrainedToo) {
  const auto problem = pde::Problem::parse(
      {.domain = {"x in [-1, 1]", "y in [-1, 1]"},
       .fields = {"u", "v"},
       .equations = {"u_xx + u_yy = v*u_x", "v_xx + v_yy = u"},
       .conditions = {"on a: u = 0", "on b: u = 0", "on a: v = x",
                      "on b: v_n = 0"},
       .shapes = {"a = box(-1, 1, -1, 1)", "b = box(-1, 0, -1, 0)"},
       .inside = "a - b"});
  const SolveConditions conditions(problem, HardConstraints::kNo);
  SolveLoss loss(problem, conditions, {.equation = 2, .boundary = 5});
  loss.prepare(pde::Derivatives::kHonest, 0, kDouble);
  const SolvePoints some(problem, conditions, {.per_axis = 7}, {}, 0, 0,
                         kDouble);
  models::PinnOptions pinn;
  pinn.width = 6;
  const auto net = pde::CornerTerms(problem).add_to(
      pinn.make({{-1, -1}, {1, 1}, 2, -1}), {2, 3});
  net->initialise(3);
  net->to(torch::kFloat64);
  {
    const torch::NoGradGuard no_grad;
    net->named_parameters()["corners"].copy_(
        torch::tensor({0.3, -0.2, 0.1, 0.4}, torch::kFloat64));
  }
  train::FlatParameters flat(*net);
  const auto all = loss.at(*net, some, data::Split::kTrain,
                           torch::arange(49, torch::kInt64));
  flat.add_gradient_of(all.total, 1);
  const auto squares = loss.least_squares(*net, some, &flat.values());
  EXPECT_NEAR(squares.residuals.dot(squares.residuals).item<double>(),
              all.total.item<double>(), 1e-12 * all.total.item<double>());
  const auto gradient = 2 * squares.jacobian.mv(squares.residuals);
  const double size = gradient.abs().max().item<double>();
  EXPECT_TRUE(near(gradient, flat.gradients(), {0, 1e-12 * size}));
}

TEST_F(TasksSolveShapes, InitialConditionsStayHard) {
  const SolveConditions some(problem, HardConstraints::kYes);
  EXPECT_TRUE(some.is_hard(problem.conditions[0]));
  EXPECT_FALSE(some.is_hard(problem.conditions[1]));
  EXPECT_FALSE(some.is_initial(problem.conditions[1]));
  EXPECT_EQ(some.name_of(problem.conditions[2]), "on hole: u_n + u");
}

TEST_F(TasksSolveShapes, GridsOfADomainAreTheirNodesInside) {
  const auto nodes = points(pde::Sampling::kGrid);
  EXPECT_LT(nodes.of(data::Split::kTrain).size(0), 343);
  EXPECT_LT(radius(nodes.of(data::Split::kTrain)).max().item<double>(), 1);
}

TEST(TasksSolveShapesExact, SolutionsAreCheckedOnEdges) {
  const std::string exact =
      "  equations: u_xx + u_yy = 4\n  exact: u = x^2 + y^2\n";
  const auto left = [&](const std::string& conditions) {
    const auto e = in_disk(exact + "  conditions: " + conditions);
    const auto& problem = dynamic_cast<const Solve&>(e.task()).problem();
    return pde::ExactSolution(problem).residual_of(problem.conditions.back());
  };
  EXPECT_LT(left("'on plate: u_n = 2'"), 1e-12);
  EXPECT_LT(left("'on hole: u_n = 2*(x*n_x + y*n_y)'"), 1e-12);
  EXPECT_GT(left("'on hole: u_n = 2'"), 0.1);
}

TEST(TasksSolveShapesTest, AskInsideAloneAndDrawNothingElse) {
  const auto e = in_disk(
      "  equations: u_xx + u_yy = 4\n  exact: u = x^2 + y^2\n"
      "  conditions: 'on boundary: u = x^2 + y^2'\n"
      "model: {name: pinn, width: 8}\neval: {per_axis: 20}\n");
  const auto model = prepared_model(e);
  const auto result = e.task().evaluate(*model, data::Split::kTest).numbers;
  const auto count = result.at("points").get<int64_t>();
  EXPECT_NEAR(static_cast<double>(count), 400 * M_PI / 4 * 0.96, 12);
  EXPECT_TRUE(result.contains("relative_l2"));
  EXPECT_FALSE(result.contains("classical"));
  auto& task = dynamic_cast<Drawing&>(e.task());
  const auto maps = task.maps(*model);
  EXPECT_EQ(torch::isfinite(maps->answer).sum().item<int64_t>(), count);
  EXPECT_EQ(torch::isfinite(maps->truth).sum().item<int64_t>(), count);
  // The middle of the hole, as rows fall and columns rise.
  EXPECT_TRUE(std::isnan(maps->answer[0][10][13].item<double>()));
  const auto grid = task.grid(*model);
  EXPECT_EQ(torch::isfinite(grid->arrays[0].values).sum().item<int64_t>(),
            count);
}

TEST(TasksSolveShapesTest, NoBoxMeansNoCollocation) {
  const auto e = in_disk(
      "  equations: u_xx + u_yy = 4\n  conditions: 'on boundary: u = 1'\n"
      "model: {name: pinn, width: 8}\neval: {per_axis: 20}\n");
  const auto result = e.task().evaluate(*prepared_model(e), data::Split::kTest);
  EXPECT_FALSE(result.numbers.contains("relative_l2"));
  EXPECT_GT(result.numbers.at("residual").get<double>(), 0);
}

TEST(TasksSolveShapesTest, PredictionsOutsideAreNone) {
  const auto e = in_disk(
      "  equations: u_xx + u_yy = 4\n  conditions: 'on boundary: u = 1'\n"
      "model: {name: pinn, width: 8}\n");
  const auto surrogate = e.task().surrogate(prepared_model(e), kDouble);
  // On the edge, in the plate, in the hole, in the box's corner.
  const auto x = torch::tensor({1.0, -0.5, 0.3, 0.9}, torch::kFloat64);
  const auto y = torch::tensor({0.0, 0.2, 0.1, 0.9}, torch::kFloat64);
  const auto u = surrogate->apply({{"x", x}, {"y", y}}).at("u");
  EXPECT_TRUE(
      torch::equal(torch::isnan(u), torch::tensor({false, false, true, true})));
}

TEST(TasksSolveShapesTest, GridsThatMissTheShapesAreRefused) {
  const std::string thin =
      "task: solve\nrecipe: network\nproblem:\n  domain: ['x in [-1, 1]', 'y "
      "in [-1, 1]']\n"
      "  fields: u\n  shapes: 'thin = box(-0.9, 0.9, -0.005, 0.005)'\n"
      "  equations: u_xx + u_yy = 1\n  conditions: 'on thin: u = 0'\n";
  try {
    run::Experiment(config::Document::from_text(thin, "test"));
    ADD_FAILURE() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("none of the centres of 20 cells"),
              std::string::npos)
        << error.what();
  }
}

TEST(TasksSolveShapesTest, ReconstructionsAreInBoxes) {
  const auto text = std::string(kDisk).replace(6, 5, "reconstruct") +
                    "  equations: u_xx + u_yy = 4\n  exact: u = x^2 + y^2\n";
  try {
    run::Experiment(config::Document::from_text(text, "test"));
    ADD_FAILURE() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("in boxes, not in shapes"),
              std::string::npos)
        << error.what();
  }
}

// A second-order method finds what is quadratic at once.
TEST(TasksSolveShapesTest, ASmallNetworkLearnsAPlateWithAHole) {
  const auto e = in_disk(
      "  equations: u_xx + u_yy = 4\n  exact: u = x^2 + y^2\n"
      "  conditions: ['on plate: u = 1', 'on hole: u_n = 2*(x*n_x + y*n_y)']\n"
      "model: {name: pinn, width: 8, layers: 2}\n"
      "optimizer: {kind: levenberg_marquardt, adam_steps: 50}\n"
      "points: {per_axis: 15, resample_every: 1}\n"
      "eval: {per_axis: 20, classical: no}\n"
      "train: {max_steps: 120, validate_every: 120, checkpoint_every: 120}\n");
  const testing::TemporaryFolder folder;
  const auto checkpoint =
      testing::trained_to(120, e, kDouble, folder / "run", {});
  const auto model = e.make_model(kDouble);
  run::set_weights(e.task(), *model, checkpoint.best, "test");
  const auto numbers = e.task().evaluate(*model, data::Split::kTest).numbers;
  EXPECT_LT(numbers.at("relative_l2").get<double>(), 1e-3) << numbers;
}

}  // namespace
}  // namespace propagator::tasks
