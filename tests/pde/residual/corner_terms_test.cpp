#include "propagator/pde/residual/corner_terms.h"

#include <torch/utils.h>

#include <cmath>

#include "pde/problem_file.h"
#include "propagator/autodiff/derivative_plan.h"
#include "propagator/pde/residual/problem_points.h"
#include "testing.h"

// Corners that point inwards, and what fields have around them.

namespace propagator::pde {
namespace {

using testing::near;
using torch::Tensor;

Problem with_shapes(std::vector<std::string> shapes, const std::string& inside,
                    const std::string& equation = "u_xx + u_yy = 0",
                    const std::string& on = "a") {
  return Problem::parse({.domain = {"x in [-1, 1]", "y in [-1, 1]"},
                         .fields = {"u"},
                         .equations = {equation},
                         .conditions = {"on " + on + ": u = 0"},
                         .shapes = std::move(shapes),
                         .inside = inside});
}

class Nothing : public autodiff::FieldNet {
 public:
  Jet forward(const Jet& points) override {
    return Jet(torch::zeros_like(points.rows().narrow(-1, 0, 1)),
               points.layout());
  }
};

// One of the terms alone.
std::shared_ptr<autodiff::FieldNet> term(const CornerTerms& corners,
                                         int64_t number, double factor = 1) {
  auto all = corners.add_to(std::make_shared<Nothing>(), {});
  all->to(torch::kFloat64);
  const torch::NoGradGuard no_grad;
  all->parameters()[0][number] = factor;
  return all;
}

TEST(PdeCornerTerms, AnLHasOneCorner) {
  const auto corners =
      with_shapes({"a = box(-1, 1, -1, 1)", "b = box(-1, 0, -1, 0)"}, "a - b")
          .region->inner_corners();
  ASSERT_EQ(corners.size(), 1);
  EXPECT_NEAR(corners[0].x, 0, 1e-12);
  EXPECT_NEAR(corners[0].y, 0, 1e-12);
  EXPECT_NEAR(corners[0].angle, 1.5 * M_PI, 1e-6);
  EXPECT_NEAR(std::cos(corners[0].middle - M_PI / 4), 1, 1e-12);
}

TEST(PdeCornerTerms, CornersThatPointOutwardsAreNone) {
  EXPECT_TRUE(with_shapes({"a = box(-0.5, 0.5, -0.5, 0.5)"}, "a")
                  .region->inner_corners()
                  .empty());
  EXPECT_TRUE(with_shapes({"a = disk(0, 0, 0.5)"}, "a")
                  .region->inner_corners()
                  .empty());
}

TEST(PdeCornerTerms, AHoleHasAllOfIts) {
  const auto corners =
      with_shapes({"a = disk(0, 0, 0.9)", "b = polygon(0,0, 0.5,0, 0,0.5)"},
                  "a - b")
          .region->inner_corners();
  ASSERT_EQ(corners.size(), 3);
  EXPECT_NEAR(corners[0].angle, 1.5 * M_PI, 1e-6);
  EXPECT_NEAR(corners[1].angle, 1.75 * M_PI, 1e-6);
  EXPECT_NEAR(corners[2].angle, 1.75 * M_PI, 1e-6);
}

// Both solve Laplace's equation, and are zero on the corner's two sides.
TEST(PdeCornerTerms, TheySolveLaplacesEquationAndAreZeroOnTheSides) {
  const auto problem = with_shapes(
      {"a = polygon(-0.9,-0.8, 0.9,-0.8, 0.1,-0.2, 0.8,0.9, -0.9,0.8)"}, "a");
  const CornerTerms corners(problem);
  ASSERT_EQ(corners.texts().size(), 1);
  const autodiff::DerivativePlan plan(problem.derivatives(), 2);
  const auto points = points_inside(problem, Sampling::kSobol, 8, 0, "test");
  const auto jets = Jet::moving(
      points.unsqueeze(1), plan.directions(points.options()), plan.layout());
  for (const int64_t number : {0, 1}) {
    const auto field = term(corners, number);
    const auto answer = field->forward(jets);
    const auto u_xx = plan.derivative(answer, {0, {2, 0}}),
               u_yy = plan.derivative(answer, {0, {0, 2}});
    EXPECT_GT(u_xx.abs().max().item<double>(), 0.1);
    EXPECT_TRUE(near(u_xx + u_yy, torch::zeros_like(u_xx), {0, 1e-9}));
    for (const auto& [x, y] : {std::pair{0.5, -0.5}, std::pair{0.31, 0.13}}) {
      const auto on_side =
          torch::tensor({x, y}, torch::kFloat64).view({1, 1, 2});
      EXPECT_NEAR(field->values(on_side).item<double>(), 0, 1e-5);
    }
  }
}

// Those of an L, by their formulas: the angle's middle is at 45 degrees.
TEST(PdeCornerTerms, AreThePowersOfTheDistance) {
  const CornerTerms corners(
      with_shapes({"a = box(-1, 1, -1, 1)", "b = box(-1, 0, -1, 0)"}, "a - b"));
  EXPECT_EQ(corners.texts(), std::vector<std::string>{"r^0.667 around (0, 0)"});
  const double r = 0.3, phi = 1.1;
  const auto at = torch::tensor({r * std::cos(phi + M_PI / 4),
                                 r * std::sin(phi + M_PI / 4)},
                                torch::kFloat64)
                      .view({1, 1, 2});
  const double unit = r / std::sqrt(2);  // by half of the box's diagonal
  EXPECT_NEAR(term(corners, 0, 3)->values(at).item<double>(),
              3 * std::pow(unit, 2.0 / 3) * std::cos(2 * phi / 3), 1e-6);
  EXPECT_NEAR(term(corners, 1)->values(at).item<double>(),
              std::pow(unit, 4.0 / 3) * std::sin(4 * phi / 3), 1e-6);
}

TEST(PdeCornerTerms, OtherProblemsHaveNone) {
  EXPECT_TRUE(CornerTerms(with_shapes({"a = box(-1, 1, -1, 1)",
                                       "b = box(-1, 0, -1, 0)"},
                                      "a - b", "u_x + u_y = u"))
                  .texts()
                  .empty());
  const CornerTerms none(testing::problem_named("helmholtz"));
  const auto network = std::make_shared<Nothing>();
  EXPECT_EQ(none.add_to(network, {}), network);
}

}  // namespace
}  // namespace propagator::pde
