#include <cmath>

#include "propagator/pde/text/problem.h"
#include "testing.h"

namespace propagator::pde {
namespace {

ProblemText disk_with_hole() {
  return {.domain = {"x in [-1, 1]", "y in [-1, 1]"},
          .fields = {"u"},
          .parameters = {"a = 0.2"},
          .equations = {"u_xx + u_yy = 0"},
          .conditions = {"on plate: u = 0", "on hole: u_n + 2*u = x"},
          .shapes = {"plate = disk(0, 0, 1)", "hole = disk(0.3, 0, a)"},
          .inside = "plate - hole"};
}

Problem parsed_shapes(const ProblemText& text) { return Problem::parse(text); }

std::pair<std::string, std::string> shape_complaint(const ProblemText& text) {
  try {
    Problem::parse(text);
  } catch (const ProblemError& error) {
    return {error.list(), std::string(error.what()) + " / " + error.hint()};
  }
  ADD_FAILURE() << "expected a ProblemError";
  return {};
}

void expect_shape_complaint(const ProblemText& text, const std::string& list,
                            const std::string& what) {
  const auto [where, found] = shape_complaint(text);
  EXPECT_EQ(where, list) << found;
  EXPECT_NE(found.find(what), std::string::npos) << found;
}

void expect_bad_shape(const std::string& shape, const std::string& what) {
  auto text = disk_with_hole();
  text.shapes[0] = "plate = " + shape;
  expect_shape_complaint(text, "shapes", what);
}

TEST(PdeShapesText, ADomainOfShapesIsUnderstood) {
  const auto problem = parsed_shapes(disk_with_hole());
  ASSERT_TRUE(problem.region);
  EXPECT_EQ(problem.conditions[0].shape, 0);
  EXPECT_EQ(problem.text(problem.conditions[0]), "on plate: u = 0");
  EXPECT_EQ(problem.text(problem.conditions[1]),
            "on hole: n_x*u_x + n_y*u_y + 2*u - x = 0");
  EXPECT_TRUE(problem.remarks.empty());
  const auto words = problem.describe();
  EXPECT_NE(words.find("inside plate - hole: 0.754 of the box"),
            std::string::npos)
      << words;
  EXPECT_NE(words.find("hole bounds the domain along a length of 1.257"),
            std::string::npos)
      << words;
}

TEST(PdeShapesText, EveryShapeReads) {
  for (const auto& [shape, inside] :
       {std::pair{"disk(0.1, 0, 0.5 + a)", M_PI * 0.49},
        {"box(-1, 0.5, -0.5, (1))", 2.25},
        {"polygon(0, 0, 1, 0, 1, 1)", 0.5},
        {"below(x^2/0.81 + y^2/0.25 - 1)", M_PI * 0.45},
        {"implicit(y - x^2)", 8.0 / 3}}) {
    auto text = disk_with_hole();
    text.shapes = {std::string("plate = ") + shape};
    text.inside = "";  // the only one
    text.conditions = {"on boundary: u = 0"};
    EXPECT_NEAR(parsed_shapes(text).region->share() * 4, inside, 5e-3) << shape;
  }
  auto text = disk_with_hole();
  text.domain.push_back("z in [-1, 1]");
  text.shapes = {"a_ball = ball(0, 0, 0, 0.9)", "b = box(0, 1, 0, 1, 0, 1)"};
  text.inside = "a_ball & b";
  text.conditions = {"on boundary: u_n = 0"};
  const auto problem = parsed_shapes(text);
  EXPECT_NEAR(problem.region->share() * 8, M_PI / 6 * 0.729, 5e-3);
  EXPECT_EQ(problem.conditions.size(), 2u);  // the shapes, no face of the box
}

TEST(PdeShapesText, InsideHasBracketsAndTheWholeBox) {
  auto text = disk_with_hole();
  text.shapes = {"p = disk(-0.5, 0, 0.4)", "q = disk(0.5, 0, 0.4)"};
  text.inside = "domain - (p + q)";
  text.conditions = {"on boundary: u = 0", "on x=-1: u_n = 1"};
  const auto problem = parsed_shapes(text);
  EXPECT_NEAR(problem.region->share() * 4, 4 - 2 * M_PI * 0.16, 5e-3);
  EXPECT_EQ(problem.conditions.size(), 2u + 4u + 1u);
  // The outward normal of a face is known.
  EXPECT_EQ(problem.text(problem.conditions.back()), "on x=-1: -u_x - 1 = 0");
}

TEST(PdeShapesText, BoxesHaveNormalsToo) {
  auto text = disk_with_hole();
  text.shapes.clear();
  text.inside = "";
  text.conditions = {"on x=1: u_n = y", "on boundary: u_n + u = 0"};
  const auto problem = parsed_shapes(text);
  EXPECT_EQ(problem.text(problem.conditions[0]), "on x=1: u_x - y = 0");
  EXPECT_EQ(problem.text(problem.conditions[3]), "on y=-1: -u_y + u = 0");
  // What is called n already stays that.
  text.fields = {"n"};
  text.equations = {"n_xx + n_yy = 0"};
  text.conditions = {"on x=1: n_n + n_x = n"};
  EXPECT_EQ(parsed_shapes(text).text(parsed_shapes(text).conditions[0]),
            "on x=1: n_x + n_x - n = 0");
  text.fields = {"u"};
  text.equations = {"u_xx + u_yy = 0"};
  text.parameters = {"n = 3"};
  text.conditions = {"on x=1: u_n = n"};
  EXPECT_EQ(parsed_shapes(text).text(parsed_shapes(text).conditions[0]),
            "on x=1: u_x - 3 = 0");
}

TEST(PdeShapesText, ShapesThatAreNone) {
  expect_bad_shape("disk(0, 0, -1)", "the radius of a disk is above 0, got -1");
  expect_bad_shape("disk(0, 0)", "disk takes 3 numbers, got 2");
  expect_bad_shape("dsik(0, 0, 1)", "did you mean disk?");
  expect_bad_shape("ball(0, 0, 0, 1)", "lies in 3 variables of space");
  expect_bad_shape("box(1, 0, 0, 1)", "expected low < high, got [1, 0]");
  expect_bad_shape("polygon(0, 0, 1, 1)", "2 corners, and it takes three");
  expect_bad_shape("polygon(0, 0, 1, 1, 2)", "two numbers for each corner");
  expect_bad_shape("polygon(0, 0, 1, 1, 1, 0, 0, 1)",
                   "sides 1 and 3 of the polygon cross");
  expect_bad_shape("below(u - 1)", "a formula of the variables of space alone");
  expect_bad_shape("disk(0, 0, 1", "expected ')'");
  expect_bad_shape("disk(0, x, 1)", "expected a number");
  expect_bad_shape("disk(0.2, 0, 1)",
                   "plate leaves the domain by 0.2: it goes to x=1.2");
  auto text = disk_with_hole();
  text.domain = {"x in [-1, 1]"};
  text.equations = {"u_xx = 0"};
  expect_shape_complaint(
      text, "shapes", "two or three variables of space, and the domain has 1");
  text = disk_with_hole();
  text.shapes[1] = "plate = disk(0, 0, 0.1)";
  expect_shape_complaint(text, "shapes", "used twice");
  text.shapes[1] = "domain = disk(0, 0, 0.1)";
  expect_shape_complaint(text, "shapes", "domain is the whole box");
}

TEST(PdeShapesText, WhatIsInsideMustBeThere) {
  auto text = disk_with_hole();
  text.inside = "hole - plate";
  expect_shape_complaint(text, "inside", "the domain is empty");
  text.inside = "";
  expect_shape_complaint(text, "inside", "write inside: plate - hole");
  text.inside = "plate - whole";
  expect_shape_complaint(text, "inside",
                         "there is no shape whole\n  plate - whole\n"
                         "          ^~~~~ / did you mean hole?");
  text.inside = "plate";
  expect_shape_complaint(text, "shapes",
                         "hole is not a part of what is inside");
  text.inside = "plate - (hole";
  expect_shape_complaint(text, "inside", "expected ')'");
  text.inside = "plate hole";
  expect_shape_complaint(text, "inside", "unexpected 'hole'");
  text.inside = "plate - hole";
  text.shapes = {"plate = disk(0, 0, 0.02)", "hole = disk(0, 0, 0.01)"};
  expect_shape_complaint(text, "inside", "of the domain's box");
  text.shapes.clear();
  expect_shape_complaint(text, "inside", "there are no shapes");
}

TEST(PdeShapesText, ConditionsOnPartsThatAreNot) {
  auto text = disk_with_hole();
  text.conditions[1] = "on whole: u = 0";
  expect_shape_complaint(
      text, "conditions",
      "there is no shape whole\n  on whole: u = 0\n     ^~~~~ / "
      "did you mean hole?");
  text.conditions[1] = "on x=1: u = 0";
  expect_shape_complaint(text, "conditions", "no part of its edge at x=1");
  text.conditions[1] = "periodic x";
  expect_shape_complaint(text, "conditions", "not periodic in space");
  text.conditions[1] = "on hole: u_nn = 0";
  expect_shape_complaint(text, "conditions", "first derivatives alone");
  text.conditions[1] = "on hole: d(x*u, n) = 0";
  expect_shape_complaint(text, "conditions", "write u_n");
  text.conditions[1] = "on plate: u = 1";
  expect_shape_complaint(text, "conditions", "contradicts on plate: u = 0");
  text = disk_with_hole();
  text.shapes.push_back("deep = disk(0.3, 0, 0.1)");
  text.inside = "plate - hole - deep";
  text.conditions.push_back("on deep: u = 0");
  expect_shape_complaint(text, "conditions", "the edge of deep does not bound");
}

TEST(PdeShapesText, APartWithoutAConditionIsRemarked) {
  auto text = disk_with_hole();
  text.conditions.pop_back();
  const auto remarks = parsed_shapes(text).remarks;
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_EQ(remarks[0],
            "no condition for u on hole, which is a part of the domain's edge");
}

TEST(PdeShapesText, JumpsInTimeAreRemarked) {
  auto text = disk_with_hole();
  text.domain.push_back("t in [0, 1]");
  text.equations = {"u_t = u_xx + u_yy"};
  text.conditions = {"on boundary: u = 0", "at t=0: u = 1"};
  const auto problem = parsed_shapes(text);
  EXPECT_EQ(problem.conditions.size(), 3u);
  ASSERT_FALSE(problem.remarks.empty());
  EXPECT_NE(problem.remarks[0].find("u = 0 and 1"), std::string::npos)
      << problem.remarks[0];
}

}  // namespace
}  // namespace propagator::pde
