#include "propagator/report/packed_levels.h"

#include <torch/utils.h>

#include "report/page_reading.h"

namespace propagator::report {
namespace {

void expect_same(const torch::Tensor& levels, int bits) {
  const auto packed = PackedLevels::of(levels, bits);
  const auto read = testing::unpacked(packed.bytes, packed.order,
                                      static_cast<size_t>(levels.size(1)),
                                      static_cast<size_t>(levels.size(2)), bits,
                                      static_cast<size_t>(levels.numel()));
  EXPECT_EQ(read, (std::vector<int64_t>(
                      levels.data_ptr<int64_t>(),
                      levels.data_ptr<int64_t>() + levels.numel())));
}

// Levels of values on [0, 1].
torch::Tensor levels_of(const torch::Tensor& values, int bits) {
  return (values * ((1 << bits) - 1)).round().to(torch::kInt64).contiguous();
}

torch::Tensor wave(int64_t frames, int64_t rows, int64_t columns) {
  const auto t = torch::linspace(0, 6, frames, torch::kFloat64);
  const auto y = torch::linspace(0, 3, rows, torch::kFloat64);
  const auto x = torch::linspace(0, 9, columns, torch::kFloat64);
  return 0.5 + 0.5 * (x + y.unsqueeze(1) - t.view({-1, 1, 1})).sin();
}

TEST(ReportPackedLevels, ComeBackAsTheyWere) {
  for (const int bits : {1, 8, 14, 16}) {
    const auto noise =
        testing::random({3, 7, 5}, "noise").to(torch::kFloat64).sigmoid();
    for (const auto& values :
         {wave(3, 7, 5), noise, torch::zeros({2, 1, 1}, torch::kFloat64),
          torch::ones({1, 4, 1}, torch::kFloat64),
          // From one end to the other, the longest codes there are.
          torch::arange(24, torch::kFloat64).remainder(2).view({2, 3, 4}),
          torch::arange(24, torch::kFloat64)
              .eq(13)
              .to(torch::kFloat64)
              .view({1, 2, 12})}) {
      expect_same(levels_of(values, bits), bits);
    }
  }
}

TEST(ReportPackedLevels, SmoothFieldsTakeLessRoomAndNoiseHardlyMore) {
  const auto smooth = PackedLevels::of(levels_of(wave(10, 50, 100), 14), 14);
  EXPECT_EQ(smooth.order, 2);
  EXPECT_LT(smooth.bytes.size(), 50'000u / 2);  // half a byte a number
  const auto noise = PackedLevels::of(
      levels_of(testing::random({10, 50, 100}, "noise").sigmoid(), 14), 14);
  EXPECT_LT(noise.bytes.size(), 2 * 50'000u);  // as two bytes a number
}

}  // namespace
}  // namespace propagator::report
