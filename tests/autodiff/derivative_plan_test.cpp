#include "propagator/autodiff/derivative_plan.h"

#include <cmath>

#include "propagator/pde/text/expression.h"
#include "testing.h"

namespace propagator::autodiff {
namespace {

using testing::near;

std::set<Derivative> of_one_field(const std::vector<Orders>& all) {
  std::set<Derivative> derivatives;
  for (const auto& orders : all) derivatives.insert({0, orders});
  return derivatives;
}

DerivativePlan plan_of(const std::vector<Orders>& all) {
  return {of_one_field(all), std::ssize(all.front())};
}

// A formula as a field on moving points, (M; N, 1).
Jet field(const std::string& formula, const std::vector<std::string>& variables,
          const torch::Tensor& points, const DerivativePlan& plan) {
  const auto moving =
      Jet::moving(points, plan.directions(points.options()), plan.layout());
  const auto jet = pde::Expression::parse(formula, {variables, {}, {}})
                       .evaluate({coordinates(moving), {}});
  return jet.linear(
      [](const torch::Tensor& rows) { return rows.unsqueeze(-1); });
}

// Every derivative of the plan against what symbolic differentiation says.
void expect_derivatives(const std::string& formula,
                        const std::vector<std::string>& variables,
                        const std::vector<Orders>& needed) {
  const auto plan = plan_of(needed);
  const auto points =
      testing::random({7, std::ssize(variables)}, "plan/" + formula);
  const auto u = field(formula, variables, points, plan);
  const Symbols symbols{variables, {}, {}};
  for (const auto& orders : needed) {
    auto expected = pde::Expression::parse(formula, symbols);
    for (size_t i = 0; i < orders.size(); ++i) {
      for (int64_t k = 0; k < orders[i]; ++k) {
        expected = expected.derivative(static_cast<int64_t>(i));
      }
    }
    const auto values =
        expected.evaluate({coordinates(Jet::constant(points)), {}});
    EXPECT_TRUE(
        near(plan.derivative(u, {0, orders}), values.value(), {1e-11, 1e-11}))
        << formula << ": " << plan.recipe(orders, variables);
  }
}

TEST(AutodiffDerivativePlan, PureDerivativesTakeTheirOwnAxes) {
  const auto plan = plan_of({{2, 0}, {0, 1}, {1, 0}, {0, 0}});
  EXPECT_EQ(plan.layout(), JetLayout({2, 1}));
  const std::vector<Orders> axes{{1, 0}, {0, 1}};
  EXPECT_EQ(plan.direction_list(), axes);
  EXPECT_EQ(plan.recipe({2, 0}, {"x", "t"}), "2 c2(x)");
  EXPECT_EQ(plan.recipe({0, 1}, {"x", "t"}), "c1(t)");
}

TEST(AutodiffDerivativePlan, OrdersFall) {
  const auto plan = plan_of({{0, 0, 1}, {4, 0, 0}, {0, 2, 0}});
  EXPECT_EQ(plan.layout(), JetLayout({4, 2, 1}));
}

TEST(AutodiffDerivativePlan, MixedDerivativesShareDirections) {
  // Alone: the two diagonals; beside u_xx and u_tt one of them is enough.
  EXPECT_EQ(plan_of({{1, 1}}).layout(), JetLayout({2, 2}));
  EXPECT_EQ(plan_of({{1, 1}}).recipe({1, 1}, {"x", "t"}),
            "0.5 c2(x+t) - 0.5 c2(x-t)");
  EXPECT_EQ(plan_of({{1, 1}, {2, 0}, {0, 2}}).layout(), JetLayout({2, 2, 2}));
  // First derivatives come out of the diagonals.
  EXPECT_EQ(plan_of({{1, 1}, {1, 0}, {0, 1}}).layout(), JetLayout({2, 2}));
  // The biharmonic operator, and each of the mixed ones of higher order.
  EXPECT_EQ(plan_of({{4, 0}, {2, 2}, {0, 4}}).layout(),
            JetLayout({4, 4, 4, 4}));
  EXPECT_EQ(plan_of({{2, 1}}).layout(), JetLayout({3, 3, 3}));
  EXPECT_EQ(plan_of({{1, 1, 1}}).layout(), JetLayout({3, 3, 3, 3}));
}

TEST(AutodiffDerivativePlan, PolynomialsAreExact) {
  const std::vector<std::string> two{"x", "t"};
  expect_derivatives("x^3*t^2 - 2*x*t + t^4", two, {{1, 1}});
  expect_derivatives("x^3*t^2 - 2*x^2*t + t^4", two, {{2, 1}, {1, 0}, {0, 2}});
  expect_derivatives("x^2*t^2 + x^4 - 3*x^3*t + x^4*t^3", two,
                     {{2, 2}, {4, 0}, {0, 4}, {1, 1}, {3, 1}});
  expect_derivatives("(x + 2*y - z)^6*(1 + x*y*z)", {"x", "y", "z"},
                     {{2, 2, 0}, {1, 1, 1}, {0, 0, 3}, {1, 0, 1}, {0, 1, 0}});
}

TEST(AutodiffDerivativePlan, WavesInThreeVariables) {
  const std::vector<std::string> names{"x", "y", "z"};
  for (const auto& orders : std::vector<Orders>{{1, 1, 0},
                                                {2, 1, 0},
                                                {2, 2, 0},
                                                {1, 1, 1},
                                                {2, 1, 1},
                                                {0, 1, 3},
                                                {3, 2, 0},
                                                {2, 2, 2}}) {
    expect_derivatives("sin(x + 2*y)*exp(z)", names, {orders});
  }
  expect_derivatives("sin(x + 2*y)*exp(z)", names,
                     {{2, 0, 0},
                      {0, 2, 0},
                      {0, 0, 2},
                      {1, 1, 0},
                      {1, 0, 1},
                      {0, 1, 1},
                      {2, 1, 0},
                      {2, 2, 0},
                      {1, 0, 0},
                      {0, 0, 1}});
}

TEST(AutodiffDerivativePlan, EveryDerivativeToOrderFourInTwoVariables) {
  std::vector<Orders> all;
  for (int64_t i = 0; i <= 4; ++i) {
    for (int64_t k = 0; i + k <= 4; ++k) all.push_back({i, k});
  }
  // As many as order 4 has derivatives, and no more for the lower ones.
  EXPECT_EQ(plan_of(all).layout(), JetLayout({4, 4, 4, 4, 4}));
  expect_derivatives("exp(x)*sin(3*y) + x^4*y", {"x", "y"}, all);
}

TEST(AutodiffDerivativePlan, SeveralFields) {
  const DerivativePlan plan({{0, {2}}, {1, {1}}}, 1);
  const auto points = testing::random({4, 1}, "plan/fields");
  const auto x =
      Jet::moving(points, plan.directions(points.options()), plan.layout());
  const auto fields = cat({sin(x), exp(x)}, -1);
  const auto p = points.select(-1, 0);
  EXPECT_TRUE(near(plan.derivative(fields, {0, {2}}), -torch::sin(p),
                   testing::kFloat64));
  EXPECT_TRUE(near(plan.derivative(fields, {1, {1}}), torch::exp(p),
                   testing::kFloat64));
  EXPECT_TRUE(near(plan.derivative(fields, {1, {0}}), torch::exp(p),
                   testing::kFloat64));
}

TEST(AutodiffDerivativePlan, ValuesAlone) {
  const DerivativePlan plan({{0, {0, 0}}}, 2);
  EXPECT_EQ(plan.layout().rows(), 1);
  const auto points = testing::random({3, 2}, "plan/values");
  const auto directions = plan.directions(points.options());
  EXPECT_EQ(directions.sizes(), (std::vector<int64_t>{0, 2}));
  const auto moving = Jet::moving(points, directions, plan.layout());
  EXPECT_TRUE(near(plan.derivative(moving, {1, {0, 0}}), points.select(1, 1),
                   testing::kFloat64));
}

TEST(AutodiffDerivativePlan, EnvironmentEvaluatesAnEquation) {
  const Symbols symbols{{"x", "t"}, {"u"}, {}};
  const auto residual = pde::Expression::parse_equation(
      "u_tt - 4*u_xx + u_xt + x*u = 0", symbols);
  const DerivativePlan plan(residual.derivatives(), 2);
  const auto points = testing::random({6, 2}, "plan/equation");
  const auto u = field("sin(x)*exp(t)", {"x", "t"}, points, plan);
  const auto x = points.select(1, 0), t = points.select(1, 1);
  const auto s = torch::sin(x) * torch::exp(t);
  EXPECT_TRUE(near(residual.evaluate(plan.environment(points, u)).value(),
                   5 * s + torch::cos(x) * torch::exp(t) + x * s,
                   {1e-12, 1e-12}));
}

// Parts of windows (N, T, D): all tokens of some, the first alone of others.
TEST(AutodiffDerivativePlan, EnvironmentsOfPartsAreThatOfTheWhole) {
  const Symbols symbols{{"x", "t"}, {"u", "v"}, {}};
  const auto residual = pde::Expression::parse_equation(
      "u_tt - 4*v_xx + t*u*v_x + u = x", symbols);
  const DerivativePlan plan(residual.derivatives(), 2);
  const auto points = testing::random({6, 3, 2}, "plan/windows");
  const std::vector<torch::Tensor> parts{
      points.narrow(0, 0, 3), points.narrow(0, 3, 1).narrow(1, 0, 1),
      points.narrow(0, 4, 2).narrow(1, 0, 2)};
  const auto sum_of_parts = [&](const torch::Tensor& rows) {
    torch::Tensor sum;
    for (const auto& here :
         plan.environments(parts, Jet(rows, plan.layout()))) {
      const auto part = residual.evaluate(here).value().square().sum();
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  };
  const auto rows =
      testing::random({plan.layout().rows(), 6, 3, 2}, "plan/rows");
  const auto whole =
      residual.evaluate(plan.environment(points, Jet(rows, plan.layout())))
          .value()
          .square();
  EXPECT_TRUE(near(sum_of_parts(rows),
                   whole.slice(0, 0, 3).sum() + whole[3][0] +
                       whole.slice(0, 4, 6).slice(1, 0, 2).sum(),
                   {1e-12, 1e-12}));
  EXPECT_TRUE(testing::gradient_is_right(sum_of_parts, rows));
}

TEST(AutodiffDerivativePlan, DirectionsHaveTheTypeThatIsAsked) {
  const auto plan = plan_of({{1, 1}});
  const auto directions = plan.directions(torch::kFloat32);
  EXPECT_EQ(directions.dtype(), torch::kFloat32);
  EXPECT_TRUE(torch::equal(
      directions, torch::tensor({{1.0, 1.0}, {1.0, -1.0}}, torch::kFloat32)));
}

TEST(AutodiffDerivativePlan, RefusesWhatItWasNotMadeFor) {
  const auto plan = plan_of({{2, 0}});
  const auto points = testing::random({3, 2}, "plan/refused");
  const auto u =
      Jet::moving(points, plan.directions(points.options()), plan.layout());
  EXPECT_EQ(testing::thrown<std::invalid_argument>([&] {
              plan.derivative(u, {0, {0, 1}});
            }),
            "[DerivativePlan] expected a derivative of the plan, got (0, 1)");
  EXPECT_THROW(plan.derivative(u, {2, {2, 0}}), std::invalid_argument);
  EXPECT_THROW(plan.derivative(Jet::constant(points), {0, {2, 0}}),
               std::invalid_argument);
  EXPECT_THROW(DerivativePlan({{0, {1}}}, 2), std::invalid_argument);
}

// 3 u_xx - 0.5 u_tt as one row, beside first derivatives and a variable that
// is in no second one.
TEST(AutodiffDerivativePlan, ASumOfSecondDerivativesIsOneRow) {
  const std::vector<std::string> variables{"x", "y", "t"};
  const auto derivatives = of_one_field({{0, 1, 0}, {1, 0, 0}, {0, 0, 0}});
  const DerivativePlan plan(derivatives, 3,
                            {{{2, 0, 0}, 3.0}, {{0, 0, 2}, -0.5}});
  EXPECT_EQ(plan.layout().rows(), 1 + 3 + 1);
  const std::string formula = "exp(x*y)*sin(t + x) + t^3*tanh(x - y)/(2 + y)";
  const auto points = testing::random({7, 3}, "plan/sum");
  const auto u = field(formula, variables, points, plan);
  const auto value = [&](std::vector<int64_t> by) {
    auto expression = pde::Expression::parse(formula, {variables, {}, {}});
    for (const int64_t variable : by) {
      expression = expression.derivative(variable);
    }
    return expression.evaluate({coordinates(Jet::constant(points)), {}})
        .value();
  };
  const auto given = [&](Orders orders) {
    return plan.derivative(u, {0, std::move(orders)});
  };
  constexpr testing::Tolerance kExact{1e-11, 1e-11};
  // Over the first factor, that of u_tt.
  EXPECT_TRUE(near(plan.second_order_sum(u, 0),
                   value({2, 2}) - 6 * value({0, 0}), kExact));
  EXPECT_TRUE(near(given({1, 0, 0}), value({0}), kExact));
  EXPECT_TRUE(near(given({0, 1, 0}), value({1}), kExact));
  EXPECT_TRUE(near(given({0, 0, 0}), value({}), kExact));
}

TEST(AutodiffDerivativePlan, ASumHasNoneOfItsDerivativesAlone) {
  const SecondOrderSum laplacian{{{2, 0}, 1.0}, {{0, 2}, 1.0}};
  const DerivativePlan plan(of_one_field({{1, 0}}), 2, laplacian);
  const auto points = testing::random({3, 2}, "plan/sum alone");
  const auto u = field("x*exp(y)", {"x", "y"}, points, plan);
  for (const auto& orders : std::vector<Orders>{{2, 0}, {0, 2}}) {
    EXPECT_THROW(plan.derivative(u, {0, orders}), std::invalid_argument);
  }
  const auto environment = plan.environment(points, u);
  EXPECT_THROW(environment.field({0, {2, 0}}), std::invalid_argument);
  EXPECT_TRUE(torch::equal(environment.second_order_sum(0).value(),
                           plan.second_order_sum(u, 0)));
  EXPECT_THROW(plan.second_order_sum(u, 1), std::invalid_argument);
  // Nor can they be wanted beside it, nor a sum of a plan without one.
  for (const auto& orders : std::vector<Orders>{{2, 0}, {1, 1}}) {
    EXPECT_THROW(DerivativePlan(of_one_field({orders}), 2, laplacian),
                 std::invalid_argument);
  }
  const auto each = plan_of({{2, 0}, {0, 2}});
  EXPECT_THROW(
      each.second_order_sum(field("x*exp(y)", {"x", "y"}, points, each), 0),
      std::invalid_argument);
}

}  // namespace
}  // namespace propagator::autodiff
