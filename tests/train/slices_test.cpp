#include "propagator/train/slices.h"

#include <torch/utils.h>

#include <cmath>

#include "propagator/core/error.h"
#include "propagator/train/shared_rows.h"
#include "testing.h"
#include "thread_ranks.h"

namespace propagator::train {
namespace {

using propagator::testing::on_ranks;
using propagator::testing::thrown;

// Numbers whose sum depends on the order in which they are added.
torch::Tensor numbers_of(int64_t slice) {
  return propagator::testing::random({257}, "slice " + std::to_string(slice))
             .to(torch::kFloat32) *
         std::pow(10.0, static_cast<double>(slice % 5));
}

torch::Tensor sum_on(int ranks, int64_t slices) {
  const auto sums = on_ranks<torch::Tensor>(ranks, [&] {
    return tree_sum(slices,
                    [](int64_t slice) -> Sum { return {numbers_of(slice)}; })
        .front();
  });
  for (const auto& sum : sums) EXPECT_TRUE(torch::equal(sum, sums.front()));
  return sums.front();
}

TEST(TrainSlices, TheSumHasTheSameBitsOnAnyNumberOfRanks) {
  for (const int64_t slices : {4, 8, 11, 16}) {
    const auto one = sum_on(1, slices);
    for (const int ranks : {2, 3, 4}) {
      EXPECT_TRUE(torch::equal(sum_on(ranks, slices), one))
          << slices << " slices on " << ranks << " ranks";
    }
  }
}

TEST(TrainSlices, TheSumIsThatOfATree) {
  const auto a = numbers_of(0), b = numbers_of(1), c = numbers_of(2),
             d = numbers_of(3), e = numbers_of(4);
  EXPECT_TRUE(torch::equal(sum_on(1, 5), ((a + b) + c) + (d + e)));
}

TEST(TrainSlices, EveryCaseIsInOneSlice) {
  const Parts batches{torch::arange(10), torch::arange(10, 20)};
  const auto slices = slices_of(batches, 4);
  ASSERT_EQ(slices.size(), 4u);
  std::vector<torch::Tensor> all;
  for (const auto& slice : slices) {
    ASSERT_EQ(slice.size(), 2u);
    EXPECT_EQ(slice[0].size(0), slice[1].size(0));
    all.push_back(torch::cat(slice));
  }
  EXPECT_TRUE(
      torch::equal(std::get<0>(torch::cat(all).sort()), torch::arange(20)));
  EXPECT_EQ(count_of(batches), 20);
}

TEST(TrainSlices, ASliceFollowsThePositionsOfItsBatch) {
  const auto batch = torch::arange(4);
  const auto slices = slices_of({batch}, 2);
  batch.add_(10);
  EXPECT_TRUE(torch::equal(slices[1][0], torch::tensor({12, 13})));
}

TEST(TrainSlices, OneSliceIsTheBatchesAsTheyAre) {
  const Parts batches{torch::arange(3), torch::arange(3)};
  const auto slices = slices_of(batches, 1);
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_TRUE(slices[0][0].is_same(batches[0]));
}

TEST(TrainSlices, WhatCannotBeCutIsSaid) {
  const auto many =
      thrown<ConfigError>([] { slices_of({torch::arange(3)}, 4); });
  EXPECT_NE(many.find("a batch of 3 cases cannot be cut into 4 slices"),
            std::string::npos);
  const auto few = thrown<ConfigError>([] {
    on_ranks<int>(4, [] {
      expect_slices_for_ranks(2);
      return 0;
    });
  });
  EXPECT_NE(few.find("train.slices=2 cannot be shared by 4 ranks"),
            std::string::npos);
}

TEST(TrainSlices, RowsComeTogetherInOrder) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const auto& rows : on_ranks<std::vector<torch::Tensor>>(ranks, [] {
           std::vector<torch::Tensor> own;
           const auto share = own_share(4);
           for (int64_t n = share.begin; n < share.end; ++n) {
             own.push_back(torch::full({2}, n, torch::kFloat64));
           }
           return gather_rows(own, 4);
         })) {
      ASSERT_EQ(rows.size(), 4u);
      for (size_t n = 0; n < 4; ++n) {
        EXPECT_EQ(rows[n][1].item<double>(), static_cast<double>(n)) << ranks;
      }
    }
  }
}

}  // namespace
}  // namespace propagator::train
