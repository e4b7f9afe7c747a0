#include "propagator/core/random.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "testing.h"

namespace propagator {
namespace {

using Counter = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

torch::Tensor numbers(int64_t seed, const std::string& name, int64_t count) {
  return RandomStream(seed, name).uniform({count}, 0, 1, torch::kFloat64);
}

double correlation(const torch::Tensor& a, const torch::Tensor& b) {
  const auto x = a - a.mean(), y = b - b.mean();
  return ((x * y).sum() / (x.norm() * y.norm())).item<double>();
}

// Known answers of Random123 (kat_vectors, philox4x32 10).
TEST(CoreRandom, PhiloxKnownAnswers) {
  EXPECT_EQ(philox(Counter{0, 0, 0, 0}, Key{0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(Counter{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                   Key{0xffffffff, 0xffffffff}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(Counter{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                   Key{0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CoreRandom, PhiloxOfManyCountersIsThatOfEach) {
  PhiloxLanes counters;
  const auto word = [](int64_t lane, int64_t w) {
    return static_cast<uint32_t>(0x9e3779b9 * (4 * lane + w + 1));
  };
  for (int64_t l = 0; l < kPhiloxLanes; ++l) {
    for (int64_t w = 0; w < 4; ++w) counters[w][l] = word(l, w);
  }
  const Key key{0xa4093822, 0x299f31d0};
  philox(counters, key);
  for (int64_t l = 0; l < kPhiloxLanes; ++l) {
    const auto one =
        philox(Counter{word(l, 0), word(l, 1), word(l, 2), word(l, 3)}, key);
    for (int64_t w = 0; w < 4; ++w) EXPECT_EQ(counters[w][l], one[w]);
  }
}

TEST(CoreRandom, UniformHasItsMoments) {
  constexpr int64_t kCount = 100000;
  const auto x =
      RandomStream(3, "moments").uniform({kCount}, -2, 4, torch::kFloat64);
  EXPECT_GE(x.min().item<double>(), -2);
  EXPECT_LT(x.max().item<double>(), 4);
  // Mean 1, variance 6²/12 = 3; five standard errors.
  const double error = std::sqrt(3.0 / kCount);
  EXPECT_NEAR(x.mean().item<double>(), 1, 5 * error);
  const double fourth = std::pow(6.0, 4) / 80;  // E (x - 1)⁴
  EXPECT_NEAR(x.var().item<double>(), 3, 5 * std::sqrt((fourth - 9) / kCount));
  EXPECT_LT(x.min().item<double>(), -2 + 6 * 1e-3);
  EXPECT_GT(x.max().item<double>(), 4 - 6 * 1e-3);
}

TEST(CoreRandom, NeighboursAreUncorrelated) {
  constexpr int64_t kCount = 100000;
  const auto x = numbers(3, "data", kCount);
  const double limit = 5 / std::sqrt(double{kCount});
  for (const int64_t lag : {1, 2, 3}) {
    const int64_t left = kCount - lag;
    EXPECT_LT(
        std::abs(correlation(x.narrow(0, 0, left), x.narrow(0, lag, left))),
        limit)
        << lag;
  }
}

TEST(CoreRandom, NamesAndSeedsGiveUnrelatedStreams) {
  constexpr int64_t kCount = 10000;
  const double limit = 5 / std::sqrt(double{kCount});
  const auto x = numbers(3, "data", kCount);
  EXPECT_TRUE(torch::equal(x, numbers(3, "data", kCount)));
  for (const auto& other :
       {numbers(4, "data", kCount), numbers(-3, "data", kCount),
        numbers(3, "date", kCount), numbers(3, "data ", kCount),
        numbers(3, "", kCount)}) {
    EXPECT_FALSE(torch::eq(x, other).any().item<bool>());
    EXPECT_LT(std::abs(correlation(x, other)), limit);
  }
}

TEST(CoreRandom, RowsAreUnrelated) {
  const RandomStream stream(3, "rows");
  constexpr int64_t kCount = 10000;
  auto a = torch::empty(kCount, torch::kFloat64), b = torch::empty_like(a);
  for (int64_t i = 0; i < kCount; ++i) {
    a[i] = stream.uniform(0, i);
    b[i] = stream.uniform(int64_t{1} << 40, i);
  }
  EXPECT_LT(std::abs(correlation(a, b)), 5 / std::sqrt(double{kCount}));
}

TEST(CoreRandom, ValueDependsOnItsPlaceAlone) {
  constexpr int64_t kCount = 20000;  // more than one thread's share
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = numbers(5, "place", kCount);
  at::set_num_threads(3);
  const auto three = numbers(5, "place", kCount);
  at::set_num_threads(threads);
  EXPECT_TRUE(torch::equal(one, three));
  EXPECT_TRUE(torch::equal(one.narrow(0, 0, 77), numbers(5, "place", 77)));
  const RandomStream stream(5, "place");
  const auto square = stream.uniform({100, 200}, 0, 1, torch::kFloat64);
  EXPECT_TRUE(torch::equal(square.flatten(), one));
  for (const int64_t i : {0, 1, 2, 4095, 4096, 19999}) {
    EXPECT_EQ(one[i].item<double>(), stream.uniform(0, i));
  }
}

TEST(CoreRandom, FillGivesTheSameNumbers) {
  const RandomStream stream(5, "fill");
  for (const int64_t begin : {0, 1, 6, 7}) {
    for (const size_t count : {0, 1, 2, 5, 8}) {
      std::vector<double> values(count);
      stream.fill(3, begin, values);
      for (size_t k = 0; k < count; ++k) {
        EXPECT_EQ(values[k],
                  stream.uniform(3, begin + static_cast<int64_t>(k)));
      }
    }
  }
}

TEST(CoreRandom, BelowCoversItsRangeEvenly) {
  const RandomStream stream(5, "below");
  std::array<int, 6> count{};
  constexpr int kDraws = 6000;
  for (int i = 0; i < kDraws; ++i) {
    const int64_t n = stream.below(6, i, 0);
    ASSERT_GE(n, 0);
    ASSERT_LT(n, 6);
    ++count[n];
  }
  // 1000 each, standard deviation √(6000 · 1/6 · 5/6) = 28.9.
  for (const int n : count) EXPECT_NEAR(n, 1000, 5 * 28.9);
}

TEST(CoreRandom, PermutationHasEachNumberOnce) {
  const RandomStream stream(5, "order");
  for (const int64_t n : {0, 1, 2, 10, 1000}) {
    auto order = stream.permutation(n, 3);
    std::ranges::sort(order);
    std::vector<int64_t> expected(n);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(order, expected);
  }
}

TEST(CoreRandom, PermutationFollowsRowAndSeed) {
  const RandomStream stream(5, "order");
  EXPECT_EQ(stream.permutation(50, 1), stream.permutation(50, 1));
  EXPECT_NE(stream.permutation(50, 1), stream.permutation(50, 2));
  EXPECT_NE(stream.permutation(50, 1),
            RandomStream(6, "order").permutation(50, 1));
}

TEST(CoreRandom, PermutationsAreEquallyLikely) {
  const RandomStream stream(5, "order");
  constexpr int kRows = 5000;
  std::array<std::array<int, 5>, 5> count{};  // place, number
  for (int row = 0; row < kRows; ++row) {
    const auto order = stream.permutation(5, row);
    for (int place = 0; place < 5; ++place) ++count[place][order[place]];
  }
  // 1000 each, standard deviation √(5000 · 1/5 · 4/5) = 28.3.
  for (const auto& numbers : count) {
    for (const int n : numbers) EXPECT_NEAR(n, 1000, 5 * 28.3);
  }
}

}  // namespace
}  // namespace propagator
