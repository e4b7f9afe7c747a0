#include "propagator/pde/residual/problem_scale.h"

#include <cmath>

#include "pde/problem_file.h"
#include "testing.h"

// How large what a problem is about is.

namespace propagator::pde {
namespace {

Problem rod(const std::string& source, const std::string& ends) {
  return Problem::parse({.domain = {"x in [0, 0.01]"},
                         .fields = {"T"},
                         .equations = {"50*T_xx + " + source},
                         .conditions = {"on boundary: T = " + ends}});
}

TEST(PdeProblemScale, NumbersNearOneHaveNone) {
  const auto wave =
      Problem::parse({.domain = {"x in [0, 1]", "t in [0, 10]"},
                      .fields = {"u"},
                      .equations = {"u_tt = 4*u_xx"},
                      .conditions = {"at t=0: u = sin(pi*x)", "at t=0: u_t = 0",
                                     "on boundary: u = 0"}});
  const ProblemScale scale(wave);
  EXPECT_TRUE(scale.empty());
  EXPECT_EQ(scale.of_equation(0), 1);
  EXPECT_EQ(scale.of_condition(2), 1);
}

TEST(PdeProblemScale, AFieldIsAsLargeAsItsConditions) {
  const ProblemScale scale(rod("0", "293"));
  ASSERT_FALSE(scale.empty());
  EXPECT_DOUBLE_EQ(scale.fields()[0], 293);
  EXPECT_DOUBLE_EQ(scale.of_equation(0), 50 * 293 / (0.005 * 0.005));
  EXPECT_DOUBLE_EQ(scale.of_condition(0), 293);
  EXPECT_EQ(scale.text({{"x"}, {"T"}, {}}), "x by 0.005, T by 293");
}

TEST(PdeProblemScale, AFluxMakesItToo) {
  const auto problem =
      Problem::parse({.domain = {"x in [0, 0.01]"},
                      .fields = {"T"},
                      .equations = {"T_xx = 0"},
                      .conditions = {"on x=0: T = 0", "on x=0.01: T_x = 4e4"}});
  const ProblemScale scale(problem);
  EXPECT_DOUBLE_EQ(scale.fields()[0], 4e4 * 0.005);
  EXPECT_DOUBLE_EQ(scale.of_matched({0, {1}}), 4e4);
}

TEST(PdeProblemScale, OrElseASource) {
  const ProblemScale constant(rod("1e7", "0"));
  EXPECT_DOUBLE_EQ(constant.fields()[0], 1e7 * 0.005 * 0.005 / 50);
  // Sixteen waves make less of it: 1e9/(50 (32 pi/0.01)^2), by root mean
  // square.
  const ProblemScale waves(rod("1e9*sin(32*pi*x/0.01)", "0"));
  const double k = 32 * M_PI / 0.01;
  const double size = 1e9 / std::sqrt(2) / (50 * k * k);
  EXPECT_GT(waves.fields()[0], size / 3);
  EXPECT_LT(waves.fields()[0], size * 3);
}

TEST(PdeProblemScale, APressureThatNoConditionGives) {
  const auto problem = Problem::parse(
      {.domain = {"x in [0, 0.002]", "y in [0, 0.002]"},
       .fields = {"u", "v", "p"},
       .equations = {"u_x + v_y = 0", "p_x = 1e-3*laplacian(u)",
                     "p_y = 1e-3*laplacian(v)"},
       .conditions = {"on boundary: u = 1e-4*y/0.002", "on boundary: v = 0"}});
  const ProblemScale scale(problem);
  const double u = scale.fields()[0];
  EXPECT_NEAR(u, 1e-4, 1e-12);
  EXPECT_GT(scale.fields()[1], u / 3);
  EXPECT_LT(scale.fields()[1], u * 3);
  // p/L = 1e-3 (u_xx + u_yy) with L = 1e-3.
  EXPECT_NEAR(scale.fields()[2], 2 * u, 1e-12);
}

TEST(PdeProblemScale, OfProblemsThatComeWithTheProgramOneAlone) {
  for (const auto& name : testing::problem_names()) {
    const auto problem = testing::problem_named(name);
    EXPECT_EQ(ProblemScale(problem).empty(), name != "steel-rod")
        << name << ": " << ProblemScale(problem).text(problem.symbols);
  }
}

}  // namespace
}  // namespace propagator::pde
