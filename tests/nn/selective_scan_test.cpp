#include "propagator/nn/selective_scan.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <cmath>

#include "testing.h"

namespace propagator::nn {
namespace {

using autodiff::Jet;
using autodiff::JetLayout;
using propagator::testing::gradient_is_right;
using propagator::testing::kFloat64;
using propagator::testing::near;
using propagator::testing::random;
using torch::Tensor;

constexpr int64_t kSequences = 2, kLength = 4, kInner = 3, kStates = 2;

// What a scan takes, as jets: rows (M, …) of numbers in ±1, but steps whose
// value is positive.
struct Inputs {
  Jet x, delta, b, c;
  Tensor a = -(random({kInner, kStates}, "a") + 1.5), d = random({kInner}, "d");

  explicit Inputs(const JetLayout& layout = {}) {
    const auto jet = [&](const char* name, int64_t channels) {
      return Jet(random({layout.rows(), kSequences, kLength, channels}, name),
                 layout);
    };
    x = jet("x", kInner);
    delta = jet("delta", kInner) + 1.2;
    b = jet("b", kStates);
    c = jet("c", kStates);
  }
  Jet scan() const { return selective_scan(x, delta, a, b, c, d); }
};

// The recurrence number by number.
Tensor by_hand(const Inputs& in) {
  const auto number = [](const Tensor& t, std::initializer_list<int64_t> at) {
    auto part = t;
    for (const int64_t i : at) part = part[i];
    return part.item<double>();
  };
  auto y = torch::zeros({kSequences, kLength, kInner}, torch::kFloat64);
  for (int64_t n = 0; n < kSequences; ++n) {
    for (int64_t i = 0; i < kInner; ++i) {
      std::vector<double> h(kStates, 0.0);
      for (int64_t t = 0; t < kLength; ++t) {
        const double x = number(in.x.value(), {n, t, i});
        const double step = number(in.delta.value(), {n, t, i});
        double sum = number(in.d, {i}) * x;
        for (int64_t s = 0; s < kStates; ++s) {
          auto& state = h[static_cast<size_t>(s)];
          state = std::exp(step * number(in.a, {i, s})) * state +
                  step * number(in.b.value(), {n, t, s}) * x;
          sum += number(in.c.value(), {n, t, s}) * state;
        }
        y[n][t][i] = sum;
      }
    }
  }
  return y;
}

TEST(NnSelectiveScan, EqualsTheRecurrenceByHand) {
  const Inputs in;
  EXPECT_TRUE(near(in.scan().value(), by_hand(in), kFloat64));
}

TEST(NnSelectiveScan, ValueIsThatOfTheFirstRow) {
  const Inputs in(JetLayout({2, 1}));
  EXPECT_TRUE(near(in.scan().value(), by_hand(in), kFloat64));
}

TEST(NnSelectiveScan, DerivativesEqualNestedReverseMode) {
  // All inputs of all tokens move with s; windows do not see each other, so s
  // of each window gives that window's derivatives.
  const JetLayout layout({3, 2});
  const Inputs in(layout);
  const auto y = in.scan();
  for (int64_t direction = 0; direction < 2; ++direction) {
    const int64_t order = direction == 0 ? 3 : 2;
    auto s =
        torch::zeros({kSequences}, torch::kFloat64).set_requires_grad(true);
    const auto at_s = [&](const Jet& jet) {
      auto moved = jet.value();
      auto power = torch::ones({kSequences, 1, 1}, torch::kFloat64);
      for (int64_t k = 1; k <= order; ++k) {
        power = power * s.view({kSequences, 1, 1});
        moved = moved + power * jet.rows()[layout.row(direction, k)];
      }
      return Jet::constant(moved);
    };
    const auto moved = selective_scan(at_s(in.x), at_s(in.delta), in.a,
                                      at_s(in.b), at_s(in.c), in.d)
                           .value();
    for (int64_t t = 0; t < kLength; ++t) {
      for (int64_t i = 0; i < kInner; ++i) {
        auto u = moved.select(1, t).select(1, i);
        double factorial = 1;
        for (int64_t k = 1; k <= order; ++k) {
          u = torch::autograd::grad({u.sum()}, {s}, {}, true, true)[0];
          factorial *= static_cast<double>(k);
          const auto coefficient = y.rows()[layout.row(direction, k)];
          EXPECT_TRUE(near(coefficient.select(1, t).select(1, i) * factorial, u,
                           {1e-11, 1e-12}))
              << "token " << t << " order " << k;
        }
      }
    }
  }
}

TEST(NnSelectiveScan, GradientsAgainstDifferences) {
  const Inputs in(JetLayout({2}));
  const auto weights = random({3, kSequences, kLength, kInner}, "weights");
  const auto loss = [&](const Inputs& inputs) {
    return (inputs.scan().rows() * weights).sum();
  };
  EXPECT_TRUE(gradient_is_right(
      [&](const Tensor& a) {
        auto other = in;
        other.a = a;
        return loss(other);
      },
      in.a));
  EXPECT_TRUE(gradient_is_right(
      [&](const Tensor& rows) {
        auto other = in;
        other.delta = Jet(rows, in.delta.layout());
        return loss(other);
      },
      in.delta.rows()));
}

TEST(NnSelectiveScan, AStepOfZeroKeepsTheState) {
  // Only the first token has a step; one C for all: every output is the first.
  Inputs in;
  auto delta = in.delta.rows().clone();
  delta.slice(2, 1).fill_(0);
  in.delta = Jet(delta, {});
  in.c = Jet(in.c.rows().narrow(2, 0, 1).expand_as(in.c.rows()), {});
  in.d = torch::zeros_like(in.d);
  const auto y = in.scan().value();
  EXPECT_TRUE(near(y, y.narrow(1, 0, 1).expand_as(y).contiguous(), kFloat64));
  EXPECT_GT(y.abs().min().item<double>(), 0);
}

TEST(NnSelectiveScan, WithoutStepsOnlyTheSkipIsLeft) {
  Inputs in;
  in.delta = in.delta * 0.0;
  EXPECT_TRUE(near(in.scan().value(), in.x.value() * in.d, kFloat64));
}

TEST(NnSelectiveScan, IsLinearInItsInput) {
  Inputs in;
  const auto y1 = in.scan().value();
  const auto x1 = in.x, x2 = Jet::constant(
                            random({kSequences, kLength, kInner}, "other x"));
  in.x = x2;
  const auto y2 = in.scan().value();
  in.x = x1 * 2.0 + x2 * -3.0;
  EXPECT_TRUE(near(in.scan().value(), y1 * 2 - y2 * 3, {1e-11, 1e-12}));
}

TEST(NnSelectiveScan, LaterTokensChangeNothingBeforeThem) {
  Inputs in;
  const auto before = in.scan().value();
  auto x = in.x.rows().clone();
  x.select(2, 2).add_(1);
  in.x = Jet(x, {});
  const auto change = (in.scan().value() - before).abs();
  EXPECT_EQ(change.narrow(1, 0, 2).max().item<double>(), 0);
  EXPECT_GT(change.narrow(1, 2, 2).min().item<double>(), 0);
}

TEST(NnSelectiveScan, RefusesShapesThatDoNotFit) {
  Inputs in;
  in.d = torch::ones({kInner + 1}, torch::kFloat64);
  EXPECT_EQ(
      propagator::testing::thrown<std::invalid_argument>([&] { in.scan(); }),
      "[selective_scan] expected D as (3), got (4)");
}

}  // namespace
}  // namespace propagator::nn
