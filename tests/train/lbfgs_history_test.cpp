#include "propagator/train/lbfgs_history.h"

#include <fmt/format.h>

#include <deque>

#include "testing.h"

namespace propagator::train {
namespace {

using propagator::testing::devices;
using propagator::testing::near;
using propagator::testing::random;

using Pairs = std::deque<std::pair<torch::Tensor, torch::Tensor>>;

double product(const torch::Tensor& a, const torch::Tensor& b) {
  return torch::dot(a, b).item<double>();
}

// The recursion of two loops as textbooks have it, in float64.
torch::Tensor two_loops(const Pairs& pairs, const torch::Tensor& g) {
  auto q = g.clone();
  std::vector<double> alpha(pairs.size());
  for (size_t k = pairs.size(); k-- > 0;) {
    const auto& [s, y] = pairs[k];
    alpha[k] = product(s, q) / product(y, s);
    q = q - alpha[k] * y;
  }
  const auto& [s_new, y_new] = pairs.back();
  auto r = product(s_new, y_new) / product(y_new, y_new) * q;
  for (size_t k = 0; k < pairs.size(); ++k) {
    const auto& [s, y] = pairs[k];
    r = r + s * (alpha[k] - product(y, r) / product(y, s));
  }
  return -r;
}

// A history of 7 offered 20 pairs, of which some bend the wrong way, beside the
// recursion on those that should be there.
void compare_with_two_loops(const torch::TensorOptions& options,
                            double tolerance) {
  constexpr size_t kSize = 7;
  constexpr int64_t n = 70000;  // more than a block
  const auto draw = [&](const std::string& name, int k) {
    return random({n}, fmt::format("{}{}", name, k)).to(options);
  };
  const auto curvature = 1.1 + draw("curvature", 0);
  LbfgsHistory history(kSize, curvature);
  Pairs pairs;
  auto direction = torch::empty({n}, options);
  for (int k = 0; k < 20; ++k) {
    const auto s = draw("s", k);
    const bool refused = k % 5 == 3;
    const auto y = refused ? -curvature * s : curvature * s;
    history.offer(s, y);
    if (!refused) {
      pairs.emplace_back(s.to(torch::kFloat64), y.to(torch::kFloat64));
    }
    if (pairs.size() > kSize) pairs.pop_front();
    const auto g = draw("g", k);
    const double slope = history.direction(g, direction);
    const auto expected = two_loops(pairs, g.to(torch::kFloat64));
    EXPECT_TRUE(near(direction, expected, {0, tolerance}));
    EXPECT_NEAR(slope / product(g.to(torch::kFloat64), expected), 1, tolerance);
    EXPECT_EQ(history.count(), static_cast<int64_t>(pairs.size()));
  }
}

TEST(TrainLbfgsHistory, DirectionIsThatOfTheTwoLoops) {
  for (const auto& device : devices()) {
    compare_with_two_loops(torch::dtype(torch::kFloat64).device(device), 1e-10);
    compare_with_two_loops(torch::dtype(torch::kFloat32).device(device), 1e-5);
  }
}

TEST(TrainLbfgsHistory, SolvesAQuadraticOnceItHasSeenAllOfIt) {
  // With as many conjugate steps as unknowns H is the inverse Hessian.
  constexpr int64_t n = 6;
  const auto hessian = torch::arange(1, n + 1, torch::kFloat64);
  LbfgsHistory history(n, hessian);
  for (int64_t i = 0; i < n; ++i) {
    auto s = torch::zeros({n}, torch::kFloat64);
    s[i] = 0.1;
    history.offer(s, hessian * s);
    auto direction = torch::empty({n}, torch::kFloat64);
    history.direction(s, direction);
  }
  const auto g = random({n}, "g");
  auto direction = torch::empty({n}, torch::kFloat64);
  history.direction(g, direction);
  EXPECT_TRUE(near(direction, -g / hessian, propagator::testing::kFloat64));
}

TEST(TrainLbfgsHistory, WithoutPairsItIsTheSteepestDescent) {
  const auto g = random({9}, "g");
  LbfgsHistory history(3, g);
  auto direction = torch::empty_like(g);
  EXPECT_NEAR(history.direction(g, direction), -product(g, g), 1e-14);
  EXPECT_TRUE(torch::equal(direction, -g));
  history.offer(g, 2 * g);
  history.direction(g, direction);
  EXPECT_TRUE(near(direction, -g / 2, propagator::testing::kFloat64));
  history.forget();
  history.direction(g, direction);
  EXPECT_TRUE(torch::equal(direction, -g));
}

TEST(TrainLbfgsHistory, CurvatureThatIsRoundingIsRefusedInAnyUnit) {
  const auto a = torch::tensor({1.0, 0.0}, torch::kFloat64);
  const auto b = torch::tensor({0.0, 1.0}, torch::kFloat64);
  auto direction = torch::empty_like(a);
  for (const double unit : {1e-30, 1.0, 1e30}) {
    LbfgsHistory history(3, a);
    history.offer(a, unit * (b + 1e-11 * a));
    history.direction(a, direction);
    EXPECT_EQ(history.count(), 0);
    history.offer(unit * a, b + 1e-9 * a);
    history.direction(a, direction);
    EXPECT_EQ(history.count(), 1);
    for (const auto& y : {0 * b, -a, a / 0}) {
      history.offer(a, y);
      history.direction(a, direction);
      EXPECT_EQ(history.count(), 1);
      EXPECT_TRUE(direction.isfinite().all().item<bool>());
    }
  }
}

}  // namespace
}  // namespace propagator::train
