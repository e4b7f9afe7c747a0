#include "propagator/pde/reference/spectral_solver.h"

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/pde/reference/spectral_plan.h"
#include "testing.h"

namespace propagator::pde {
namespace {

using testing::thrown;
using torch::Tensor;

constexpr double kPi = std::numbers::pi;

// The centres of n cells along each variable.
Tensor centres(const Problem& problem, int64_t n) {
  auto all = torch::zeros({1, 0}, torch::kFloat64);
  for (const auto& [low, high] : problem.domain) {
    const auto at = low + (torch::arange(n, torch::kFloat64) + 0.5) *
                              ((high - low) / static_cast<double>(n));
    const int64_t before = all.size(0);
    all = torch::cat(
        {all.repeat_interleave(n, 0), at.repeat({before}).unsqueeze(1)}, 1);
  }
  return all;
}

double relative(const Tensor& answer, const Tensor& truth) {
  return ((answer - truth).norm() / truth.norm()).item<double>();
}

double error(const ProblemText& text, const SpectralOptions& options) {
  const auto problem = Problem::parse(text);
  const auto points = centres(problem, problem.domain.size() > 2 ? 7 : 23);
  return relative(
      solve_spectrally(problem, options).at(points),
      problem.exact_fields(autodiff::Jet::constant(points)).value());
}

ProblemText burgers() {
  return {.domain = {"x in [-1, 1]", "t in [0, 1]"},
          .fields = {"u"},
          .parameters = {"nu = 0.01/pi"},
          .equations = {"u_t + u*u_x = nu*u_xx"},
          .conditions = {"at t=0: u = -sin(pi*x)", "on x=-1: u = 0",
                         "on x=1: u = 0"}};
}

// By the integrals of the Cole-Hopf transformation, as sums over η with steps
// so small that they are exact:
//   u = -∫ sin π(x - z) w dη / ∫ w dη,  z = η √(4νt),
//   w = exp(-cos π(x - z) / 2πν - η²).
Tensor cole_hopf(const Tensor& points, double nu) {
  const auto eta = torch::linspace(-9, 9, 3001, torch::kFloat64);
  const auto z = torch::sqrt(4 * nu * points.narrow(1, 1, 1)) * eta;
  const auto y = kPi * (points.narrow(1, 0, 1) - z);
  const auto exponent = -torch::cos(y) / (2 * kPi * nu) - eta.square();
  const auto w = torch::exp(exponent - exponent.amax(1, /*keepdim=*/true));
  return -((torch::sin(y) * w).sum(1) / w.sum(1)).unsqueeze(1);
}

TEST(PdeSpectralSolver, BurgersAgreesWithColeHopf) {
  const auto problem = Problem::parse(burgers());
  const auto points = centres(problem, 30);
  const auto truth = cole_hopf(points, 0.01 / kPi);
  const auto answer = [&](int64_t elements) {
    return solve_spectrally(problem, {.per_axis = 16,
                                      .elements = elements,
                                      .per_slab = 5,
                                      .slabs = 16})
        .at(points);
  };
  EXPECT_LT(relative(answer(16), truth), 1e-3);
  EXPECT_LT(relative(answer(32), truth), 1e-5);
}

ProblemText allen_cahn() {
  return {.domain = {"x in [-1, 1]", "t in [0, 1]"},
          .fields = {"u"},
          .equations = {"u_t = 0.0001*u_xx + 5*(u - u^3)"},
          .conditions = {"at t=0: u = x^2*cos(pi*x)", "periodic x"}};
}

// The nodes and the field at t = 1 there, (n, 2), by Fourier's series in x and
// the classical Runge-Kutta method in t.
Tensor allen_cahn_by_fourier(int64_t n, int64_t steps) {
  const auto x = torch::arange(n, torch::kFloat64) * (2.0 / n) - 1;
  const auto k = torch::arange(1, n / 2 + 1, torch::kFloat64);
  auto weight = torch::full({n / 2}, 2.0 / n, torch::kFloat64);
  weight[-1] = 1.0 / n;
  // The second derivative at 0 of the wave that is 1 at one node, -Σ (πk)²
  // cos πk(x_i - x_j), and so at every other node.
  const auto row = torch::mv(torch::cos(kPi * torch::outer(x + 1, k)),
                             -weight * (kPi * k).square());
  const auto i = torch::arange(n);
  const auto matrix = row.index({(i.unsqueeze(1) - i).remainder(n)});
  const auto rate = [&](const Tensor& u) {
    return 1e-4 * torch::mv(matrix, u) + 5 * (u - u.pow(3));
  };
  auto u = x.square() * torch::cos(kPi * x);
  const double h = 1.0 / static_cast<double>(steps);
  for (int64_t i = 0; i < steps; ++i) {
    const auto a = rate(u), b = rate(u + h / 2 * a), c = rate(u + h / 2 * b),
               d = rate(u + h * c);
    u = u + h / 6 * (a + 2 * b + 2 * c + d);
  }
  return torch::stack({x, u}, 1);
}

TEST(PdeSpectralSolver, AllenCahnAgreesWithFourierAndItself) {
  const auto problem = Problem::parse(allen_cahn());
  const auto solution = [&](int64_t elements) {
    return solve_spectrally(
        problem, {.per_axis = 16, .elements = elements, .slabs = 16});
  };
  const auto coarse = solution(16), fine = solution(32);
  const auto points = centres(problem, 30);
  EXPECT_LT(relative(coarse.at(points), fine.at(points)), 1e-4);
  const auto end = allen_cahn_by_fourier(512, 200);
  const auto x = end.narrow(1, 0, 1);
  const auto answer = fine.at(torch::cat({x, torch::ones_like(x)}, 1));
  EXPECT_LT(relative(answer, end.narrow(1, 1, 1)), 1e-4);
}

TEST(PdeSpectralSolver, SystemsOfFieldsOfDifferentOrder) {
  // v has no derivative by x, so no condition there.
  const ProblemText text{
      .domain = {"x in [0, 1]", "t in [0, 1]"},
      .fields = {"u, v"},
      .equations = {"u_t = v", "v_t = u_xx"},
      .conditions = {"at t=0: u = sin(pi*x)", "at t=0: v = 0", "on x=0: u = 0",
                     "on x=1: u = 0"},
      .exact = {"u = sin(pi*x)*cos(pi*t)", "v = -pi*sin(pi*x)*sin(pi*t)"}};
  EXPECT_LT(error(text, {.per_axis = 14, .slabs = 8}), 1e-8);
  EXPECT_LT(error(text, {.per_axis = 12, .elements = 3, .slabs = 8}), 1e-8);
}

TEST(PdeSpectralSolver, ConditionsMayNameAnotherField) {
  // Both in x are of u, though u and v have one derivative each.
  const ProblemText text{
      .domain = {"x in [0, 1]", "t in [0, 1]"},
      .fields = {"u, v"},
      .equations = {"u_t = v_x", "v_t = u_x"},
      .conditions = {"at t=0: u = sin(pi*x)", "at t=0: v = 0", "on x=0: u = 0",
                     "on x=1: u = 0"},
      .exact = {"u = sin(pi*x)*cos(pi*t)", "v = cos(pi*x)*sin(pi*t)"}};
  EXPECT_LT(error(text, {.per_axis = 14, .slabs = 8}), 1e-8);
  EXPECT_LT(error(text, {.per_axis = 10, .elements = 4, .slabs = 8}), 1e-8);
}

TEST(PdeSpectralSolver, NonlinearEquationsAndConditions) {
  // u = 1/(1 + x + t), with conditions that are not linear in u.
  const ProblemText text{
      .domain = {"t in [0, 2]", "x in [0, 1]"},  // time first
      .fields = {"u"},
      .equations = {"u_t = u_xx - u^2 - 2*u*u*u"},
      .conditions = {"at t=0: u = 1/(1 + x)", "on x=0: u_x + u^2 = 0",
                     "on x=1: u*(2 + t) = 1"},
      .exact = {"u = 1/(1 + x + t)"}};
  EXPECT_LT(error(text, {.per_axis = 12, .slabs = 8}), 1e-8);
  EXPECT_LT(error(text, {.per_axis = 8, .elements = 3, .slabs = 8}), 1e-8);
}

TEST(PdeSpectralSolver, OneAndThreeVariables) {
  const ProblemText decay{.domain = {"t in [0, 3]"},
                          .fields = {"u"},
                          .equations = {"u_tt + 2*u_t + u = 0"},
                          .conditions = {"at t=0: u = 1", "at t=0: u_t = 0"},
                          .exact = {"u = (1 + t)*exp(-t)"}};
  EXPECT_LT(error(decay, {.slabs = 8}), 1e-8);
  const ProblemText heat{
      .domain = {"x in [0, 1]", "y in [0, 2]", "t in [0, 1]"},
      .fields = {"u"},
      .equations = {"u_t = u_xx + u_yy"},
      .conditions = {"at t=0: u = cos(pi*x)*sin(pi*y)", "on x=0: u_x = 0",
                     "on x=1: u_x = 0", "periodic y"},
      .exact = {"u = cos(pi*x)*sin(pi*y)*exp(-2*pi^2*t)"}};
  EXPECT_LT(error(heat, {.per_axis = 10, .per_slab = 5, .slabs = 16}), 1e-5);
  EXPECT_LT(error(heat, {.per_axis = 12, .per_slab = 6, .slabs = 48}), 1e-7);
}

TEST(PdeSpectralSolver, HighOrderWithElements) {
  // A clamped beam; elements are joined with three derivatives.
  const ProblemText beam{.domain = {"x in [0, 1]"},
                         .fields = {"u"},
                         .equations = {"d(u, x, 4) = 24"},
                         .conditions = {"on x=0: u = 0", "on x=0: u_x = 0",
                                        "on x=1: u = 0", "on x=1: u_x = 0"},
                         .exact = {"u = x^2*(1 - x)^2"}};
  EXPECT_LT(error(beam, {.per_axis = 4}), 1e-10);
  EXPECT_LT(error(beam, {.per_axis = 4, .elements = 5}), 1e-10);
  // A soliton, whose equation has an odd order.
  const ProblemText soliton{.domain = {"x in [-20, 20]", "t in [0, 2]"},
                            .fields = {"u"},
                            .equations = {"u_t + 6*u*u_x + d(u, x, 3) = 0"},
                            .conditions = {"at t=0: u = 0.5/cosh(0.5*x)^2",
                                           "periodic x: u, u_x, u_xx"},
                            .exact = {"u = 0.5/cosh(0.5*(x - t))^2"}};
  EXPECT_LT(error(soliton, {.per_axis = 12, .elements = 16, .slabs = 16}),
            1e-7);
}

TEST(PdeSpectralSolver, RadauOrderInTime) {
  // n points have order 2n - 1 at the end of a slab.
  const auto problem = Problem::parse({.domain = {"t in [0, 2]"},
                                       .fields = {"u"},
                                       .equations = {"u_t = -u"},
                                       .conditions = {"at t=0: u = 1"}});
  const auto end = torch::full({1, 1}, 2, torch::kFloat64);
  for (const int64_t n : {1, 2, 3}) {
    const auto miss = [&](int64_t slabs) {
      const auto solution = solve_spectrally(
          problem, {.per_slab = n, .slabs = slabs, .tolerance = 1e-14});
      return std::abs(solution.at(end).item<double>() - std::exp(-2.0));
    };
    EXPECT_NEAR(std::log2(miss(8) / miss(16)), 2 * n - 1, 0.2) << n;
  }
}

TEST(PdeSpectralSolver, WavesStayStableOverManySlabs) {
  // Modes far beyond what a slab resolves must not grow.
  const ProblemText text{
      .domain = {"x in [0, 1]", "t in [0, 20]"},
      .fields = {"u"},
      .equations = {"u_tt = u_xx"},
      .conditions = {"at t=0: u = sin(pi*x)", "at t=0: u_t = 0",
                     "on x=0: u = 0", "on x=1: u = 0"},
      .exact = {"u = sin(pi*x)*cos(pi*t)"}};
  EXPECT_LT(error(text, {.per_axis = 24, .per_slab = 4, .slabs = 100}), 1e-4);
}

TEST(PdeSpectralSolver, ConditionsBeyondTheOrderAreLeftOut) {
  const auto problem =
      Problem::parse({.domain = {"x in [0, 1]", "t in [0, 1]"},
                      .fields = {"u"},
                      .equations = {"u_t = -u"},
                      .conditions = {"at t=0: u = 1", "periodic x"}});
  const auto solution = solve_spectrally(problem, {});
  EXPECT_EQ(SpectralPlan(problem).left_out,
            std::vector<std::string>{"periodic x"});
  EXPECT_EQ(solution.unknowns(), 16 * 7);
}

TEST(PdeSpectralSolver, NewtonThatFailsSaysSo) {
  // Bratu's problem has no solution beyond 3.51.
  const auto bratu = [](const std::string& factor) {
    return Problem::parse({.domain = {"x in [0, 1]"},
                           .fields = {"u"},
                           .equations = {"u_xx + " + factor + "*exp(u) = 0"},
                           .conditions = {"on boundary: u = 0"}});
  };
  EXPECT_NO_THROW(solve_spectrally(bratu("3.5"), {}));
  try {
    solve_spectrally(bratu("4"), {});
    FAIL() << "expected an exception";
  } catch (const NumericalError& failure) {
    EXPECT_NE(std::string(failure.what()).find("does not converge"),
              std::string::npos);
    EXPECT_NE(failure.hint().find("slabs"), std::string::npos);
  }
}

TEST(PdeSpectralSolver, UndeterminedFieldsAreAnError) {
  const auto problem =
      Problem::parse({.domain = {"x in [0, 1]", "y in [0, 1]"},
                      .fields = {"u"},
                      .equations = {"u_xx + u_yy = cos(pi*x)"},
                      .conditions = {"on x=0: u_x = 0", "on x=1: u_x = 0",
                                     "on y=0: u_y = 0", "on y=1: u_y = 0"}});
  const auto message = thrown<NumericalError>(
      [&] { solve_spectrally(problem, {.per_axis = 8}); });
  EXPECT_NE(message.find("singular"), std::string::npos) << message;
}

TEST(PdeSpectralSolver, MistakesAreNamed) {
  auto text = burgers();
  text.equations.push_back("u_t = 1");
  const auto two = Problem::parse(text);
  EXPECT_NE(thrown<UsageError>([&] {
              solve_spectrally(two, {});
            }).find("as many equations as fields, got 2 and 1"),
            std::string::npos);
  const auto problem = Problem::parse(burgers());
  EXPECT_THROW(solve_spectrally(problem, {.per_axis = 0}), UsageError);
  EXPECT_THROW(solve_spectrally(problem, {.per_axis = 1000}), UsageError);
  text = burgers();
  text.conditions.pop_back();
  EXPECT_THROW(solve_spectrally(Problem::parse(text), {.elements = 2}),
               UsageError);
  text = burgers();
  text.parameters = {"nu = 1"};
  const auto solution = solve_spectrally(Problem::parse(text), {});
  EXPECT_THROW(solution.at(torch::zeros({3}, torch::kFloat64)),
               std::invalid_argument);
}

}  // namespace
}  // namespace propagator::pde
