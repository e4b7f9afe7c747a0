#include "propagator/kernels/finite.h"

#include <cmath>
#include <limits>

#include "testing.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// One tensor of numbers from 1 on, in layouts that callers have.
std::vector<Tensor> layouts(torch::ScalarType type) {
  const auto all = torch::arange(1, 4 * 5 * 6 + 1, type).view({4, 5, 6});
  return {all,
          all.permute({2, 0, 1}),                    // dense
          all.slice(2, 1, 6, 2),                     // with gaps
          all.permute({2, 1, 0}).slice(0, 0, 6, 3),  // and turned
          torch::ones({1}, type).expand({3, 4}),     // one number for all
          torch::full({}, 2.0, type),                // without axes
          torch::empty({0, 3}, type)};
}

TEST(KernelsFinite, OneBadNumberIsFoundWhereverItIs) {
  for (const auto type : {torch::kFloat32, torch::kFloat64, torch::kBFloat16}) {
    for (const auto& good : layouts(type)) {
      EXPECT_TRUE(all_finite(good)) << good.sizes();
      EXPECT_TRUE(all_positive(good)) << good.sizes();
      for (int64_t n = 0; n < good.numel(); ++n) {
        for (const double value : {kNan, kInfinity, -kInfinity, 0.0, -1.0}) {
          const auto bad = good.clone(torch::MemoryFormat::Preserve);
          bad.masked_fill_(torch::arange(good.numel()).view(good.sizes()) == n,
                           value);
          EXPECT_EQ(all_finite(bad), std::isfinite(value)) << n << value;
          EXPECT_FALSE(all_positive(bad)) << n << ' ' << value;
        }
      }
    }
  }
}

// What lies between the numbers of a section is none of its own.
TEST(KernelsFinite, NumbersBetweenDoNotCount) {
  const auto around = torch::full({6, 8}, NAN);
  const auto inside = around.slice(0, 1, 6, 2).slice(1, 0, 8, 3);
  inside.fill_(0.5);
  EXPECT_TRUE(all_finite(inside));
  EXPECT_TRUE(all_positive(inside));
  EXPECT_FALSE(all_finite(around));
  inside[2][1] = NAN;
  EXPECT_FALSE(all_finite(inside));
}

TEST(KernelsFinite, TheLargestAndTheSmallestAreFinite) {
  using Float = std::numeric_limits<float>;
  EXPECT_TRUE(all_finite(torch::tensor({Float::max(), Float::lowest()})));
  EXPECT_TRUE(all_positive(torch::tensor({Float::max(), Float::denorm_min()})));
  EXPECT_TRUE(all_finite(torch::arange(3)));
}

}  // namespace
}  // namespace propagator::kernels
