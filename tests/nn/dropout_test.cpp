#include "propagator/nn/dropout.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/train/checkpoint.h"
#include "testing.h"

namespace propagator::nn {
namespace {

using testing::near;
using testing::random;
using testing::thrown;

constexpr double kRate = 6554.0 / 65536;  // that of 0.1

Dropout make(double rate = 0.1, int64_t key = 5) {
  Dropout dropout(rate);
  dropout->set_key(key);
  return dropout;
}

torch::Tensor draw(Dropout& dropout, int64_t count) {
  return dropout->factors({count}, torch::kFloat64);
}

TEST(NnDropout, DropsItsPartAndKeepsTheMean) {
  auto dropout = make();
  constexpr int64_t kCount = 1'000'000;
  const auto f = draw(dropout, kCount);
  const auto dropped = (f == 0).to(torch::kFloat64);
  const auto kept = torch::full_like(f, 1 / (1 - kRate));
  EXPECT_TRUE(near(f, kept * (1 - dropped), {1e-15, 1e-30}));
  // Five standard deviations: one run in two million fails.
  const double deviation = std::sqrt(kRate * (1 - kRate) / kCount);
  EXPECT_NEAR(dropped.mean().item<double>(), kRate, 5 * deviation);
  EXPECT_NEAR(f.mean().item<double>(), 1, 5 * deviation / (1 - kRate));
  // Neighbours and draws are independent: correlations within five of their
  // deviations 1/√n, for each place in a block of eight.
  const auto centred = (dropped - kRate) / std::sqrt(kRate * (1 - kRate));
  const auto next = (draw(dropout, kCount) == 0).to(torch::kFloat64);
  const auto later = (next - kRate) / std::sqrt(kRate * (1 - kRate));
  for (const int64_t lag : {1, 2, 3, 4, 5, 6, 7, 8, 64}) {
    const auto product =
        centred.slice(0, 0, kCount - lag) * centred.slice(0, lag, kCount);
    EXPECT_LT(std::abs(product.mean().item<double>()), 5e-3) << lag;
  }
  EXPECT_LT(std::abs((centred * later).mean().item<double>()), 5e-3);
  const auto by_place = centred.view({-1, 8}).mean(0).abs().max();
  EXPECT_LT(by_place.item<double>(), 5 * std::sqrt(8.0 / kCount));
}

TEST(NnDropout, LoopAndTensorOperationsDrawTheSameBits) {
  for (const int64_t key : {int64_t{0}, int64_t{-3}, int64_t{1} << 52}) {
    for (const int64_t number : {int64_t{0}, int64_t{1} << 40}) {
      const auto state = torch::tensor({key, number}, torch::kInt64);
      for (const uint32_t threshold : {1u, 6554u, 65535u}) {
        const auto one =
            dropout_factors(state, threshold, {5, 7}, torch::kFloat32);
        EXPECT_TRUE(
            torch::equal(one, dropout_factors_reference(
                                  state, threshold, {5, 7}, torch::kFloat32)));
      }
    }
  }
}

TEST(NnDropout, EveryDrawIsAnotherAndEveryKeyToo) {
  auto a = make(), b = make(), other = make(0.1, 6);
  const auto first = draw(a, 4096), second = draw(a, 4096);
  EXPECT_FALSE(torch::equal(first, second));
  EXPECT_TRUE(torch::equal(first, draw(b, 4096)));
  EXPECT_FALSE(torch::equal(first, draw(other, 4096)));
  EXPECT_EQ(a->draws(), 2);
}

TEST(NnDropout, ThreadsDoNotMatter) {
  const int threads = at::get_num_threads();
  auto a = make(), b = make();
  at::set_num_threads(1);
  const auto one = draw(a, 100'003);
  at::set_num_threads(2);
  EXPECT_TRUE(torch::equal(one, draw(b, 100'003)));
  at::set_num_threads(threads);
}

TEST(NnDropout, RowsOfADrawAreThoseOfTheWhole) {
  auto whole = make(), part = make();
  const auto places = torch::tensor({5, 0, 1, 2, 40}, torch::kInt64);
  for (const int64_t width : {8, 24, 96}) {
    for (const auto type : {torch::kFloat64, torch::kFloat32}) {
      EXPECT_TRUE(torch::equal(
          part->factors_of_rows(places, width, type),
          whole->factors({41, width}, type).index_select(0, places)));
    }
  }
  EXPECT_EQ(part->draws(), 6);
  part->eval();
  EXPECT_FALSE(part->factors_of_rows(places, 8, torch::kFloat32).defined());
}

TEST(NnDropout, CheckpointHoldsTheDrawInANetworkOfAnyType) {
  auto a = make();
  a->to(torch::kFloat64);  // what a network's own conversion calls
  a->to(torch::kCPU, torch::kBFloat16);
  draw(a, 8);
  draw(a, 8);
  const auto saved = train::copy_parameters(*a);
  EXPECT_EQ(saved.at("state").scalar_type(), torch::kInt64);
  const auto expected = draw(a, 512);
  auto b = make(0.1, 99);
  train::set_parameters(*b, saved, "here");
  EXPECT_TRUE(torch::equal(draw(b, 512), expected));
}

TEST(NnDropout, SeedsDifferByPath) {
  struct Two : torch::nn::Module {
    Two() {
      a = register_module("a", Dropout(0.5));
      b = register_module("b", Dropout(0.5));
    }
    Dropout a{nullptr}, b{nullptr};
  };
  // A module must be shared for its children to be walked.
  const auto two = std::make_shared<Two>(), same = std::make_shared<Two>();
  seed_dropouts(*two, 3);
  seed_dropouts(*same, 3);
  const auto first = draw(two->a, 512);
  EXPECT_FALSE(torch::equal(first, draw(two->b, 512)));
  EXPECT_TRUE(torch::equal(first, draw(same->a, 512)));
}

TEST(NnDropout, EvaluationChangesNothing) {
  auto dropout = make();
  const auto x = random({4, 5}, "x");
  dropout->eval();
  EXPECT_TRUE(torch::equal(dropout(x), x));
  EXPECT_EQ(dropout->draws(), 0);
  auto none = make(0);
  EXPECT_TRUE(torch::equal(none(x), x));
}

TEST(NnDropout, GradientFollowsTheFactors) {
  auto dropout = make(0.5), same = make(0.5);
  auto x = random({6, 7}, "x").set_requires_grad(true);
  dropout(x).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), same->factors({6, 7}, torch::kFloat64)));
}

TEST(NnDropout, RefusesRatesThatAreNone) {
  for (const double rate : {-0.1, 1.0, 1.5, std::nan("")}) {
    EXPECT_NE(thrown<UsageError>([&] { Dropout d(rate); }).find("[dropout]"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace propagator::nn
