#include "propagator/pde/reference/classical_answer.h"

#include <set>

#include "pde/problem_file.h"
#include "testing.h"

namespace propagator::pde {
namespace {

using testing::problem_named;

// Points that no grid of the solver shares.
torch::Tensor points_of(const Problem& problem) {
  const auto d = std::ssize(problem.domain);
  auto points = (testing::random({600, d}, "classical/points") + 1) / 2;
  for (int64_t x = 0; x < d; ++x) {
    const auto& [low, high] = problem.domain[static_cast<size_t>(x)];
    points.select(1, x).mul_(high - low).add_(low);
  }
  return points;
}

TEST(PdeClassicalAnswer, SolvesEveryProblemThatComesWithTheProgram) {
  std::set<std::string> exact;
  for (const auto& name : testing::problem_names()) {
    const auto problem = problem_named(name);
    if (problem.region) continue;         // no boxes
    if (problem.exact.empty()) continue;  // as below
    const auto points = points_of(problem);
    exact.insert(name);
    // Newton's method of the collocation does not converge there.
    if (name == "kovasznay") continue;
    const auto answer =
        classical_answer(problem, points, reference_at(problem, points), 1e-8);
    EXPECT_LE(answer.error, 1e-8) << name << ": " << answer.description;
    EXPECT_GT(answer.seconds, 0);
  }
  EXPECT_EQ(exact,
            (std::set<std::string>{
                "advection-diffusion", "clamped-plate", "convection", "darcy",
                "fisher", "fokker-planck", "heat", "heat-parametric",
                "helmholtz", "klein-gordon", "kovasznay", "loaded-string",
                "minimal-surface", "plate", "reaction", "sine-gordon",
                "steel-rod", "wave", "wave-packet"}));
}

TEST(PdeClassicalAnswer, ReferenceOfAProblemWithoutAnExactSolution) {
  const auto problem = problem_named("poisson");
  const auto points = points_of(problem);
  const auto reference = reference_at(problem, points);
  EXPECT_GT(reference.error, 0);
  EXPECT_LE(reference.error, 1e-6);
  const auto answer = classical_answer(problem, points, reference, 1e-4);
  EXPECT_LE(answer.error, 1e-4);
  EXPECT_EQ(answer.description,
            "1 element of 16 points by x, 1 element of 16 points by y");
}

TEST(PdeClassicalAnswer, ReferenceIsAsNearAsItSays) {
  auto problem = problem_named("heat");
  const auto points = points_of(problem);
  const auto truth = reference_at(problem, points);
  EXPECT_EQ(truth.error, 0);
  problem.exact.clear();
  const auto found = reference_at(problem, points, 1e-5);
  EXPECT_LE(found.error, 1e-5);
  EXPECT_LE((found.fields - truth.fields).norm().item<double>(),
            found.error * truth.fields.norm().item<double>());
}

TEST(PdeClassicalAnswer, SmallerErrorsTakeMoreUnknowns) {
  const auto problem = problem_named("wave");
  const auto points = points_of(problem);
  const auto reference = reference_at(problem, points);
  const auto rough = classical_answer(problem, points, reference, 1e-2);
  const auto fine = classical_answer(problem, points, reference, 1e-6);
  EXPECT_LE(rough.error, 1e-2);
  EXPECT_LE(fine.error, 1e-6);
  EXPECT_LT(rough.unknowns, fine.unknowns);
  EXPECT_NE(fine.description.find("slabs of 5 points by t"), std::string::npos)
      << fine.description;
}

TEST(PdeClassicalAnswer, ASolutionThatIsZero) {
  const auto problem = Problem::parse({.domain = {"x in [0, 1]"},
                                       .fields = {"u"},
                                       .equations = {"u_xx = u"},
                                       .conditions = {"on boundary: u = 0"}});
  const auto points = points_of(problem);
  const auto reference = reference_at(problem, points, 1e-6, 5);
  EXPECT_EQ(reference.fields.abs().max().item<double>(), 0);
  EXPECT_EQ(reference.error, 0);
  EXPECT_EQ(classical_answer(problem, points, reference, 1e-3, 5).error, 0);
}

TEST(PdeClassicalAnswer, NamesConditionsThatItIsWithout) {
  const auto problem =
      Problem::parse({.domain = {"x in [0, 1]"},
                      .fields = {"u"},
                      .equations = {"u_xx = -1"},
                      .conditions = {"on boundary: u = 0", "on x=1: u_x = 5"}});
  EXPECT_EQ(reference_at(problem, points_of(problem)).left_out,
            std::vector<std::string>{"on x=1: u_x = 5"});
}

TEST(PdeClassicalAnswer, ProblemsItCannotSolveAreErrors) {
  const ProblemText bratu{.domain = {"x in [0, 1]"},
                          .fields = {"u"},
                          .equations = {"u_xx + 4*exp(u) = 0"},
                          .conditions = {"on boundary: u = 0"}};
  const auto problem = Problem::parse(bratu);
  const auto points = points_of(problem);
  const Reference anything{torch::ones({600, 1}, torch::kFloat64), 0};
  EXPECT_THROW(reference_at(problem, points, 1e-6, 2), NumericalError);
  EXPECT_THROW(classical_answer(problem, points, anything, 1e-3, 2),
               NumericalError);
}

TEST(PdeClassicalAnswer, DomainsOfShapesAreDeclined) {
  const auto problem =
      Problem::parse({.domain = {"x in [-1, 1]", "y in [-1, 1]"},
                      .fields = {"u"},
                      .equations = {"u_xx + u_yy = -1"},
                      .conditions = {"on boundary: u = 0"},
                      .shapes = {"plate = disk(0, 0, 1)"}});
  const auto points = points_of(problem);
  const Reference anything{torch::ones({600, 1}, torch::kFloat64), 0};
  EXPECT_THROW(reference_at(problem, points, 1e-6, 2), UsageError);
  EXPECT_THROW(classical_answer(problem, points, anything, 1e-3, 2),
               UsageError);
}

}  // namespace
}  // namespace propagator::pde
