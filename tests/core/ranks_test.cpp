#include "propagator/core/ranks.h"

#include "testing.h"
#include "thread_ranks.h"

namespace propagator {
namespace {

using testing::on_ranks;

TEST(CoreRanks, OneAloneNeedsNobody) {
  EXPECT_EQ(ranks().size(), 1);
  EXPECT_TRUE(ranks().is_first());
  EXPECT_FALSE(ranks().are_several());
  EXPECT_EQ(ranks().gather("a"), std::vector<std::string>{"a"});
  EXPECT_THROW(ranks().send(torch::zeros({1}), 1), std::invalid_argument);
}

TEST(CoreRanks, SharesFollowEachOtherAndAreAlike) {
  for (const int64_t count : {0, 1, 7, 12}) {
    int64_t next = 0;
    for (int64_t part = 0; part < 5; ++part) {
      const auto share = share_of(count, part, 5);
      EXPECT_EQ(share.begin, next);
      EXPECT_LE(std::abs(share.size() * 5 - count), 5);
      next = share.end;
    }
    EXPECT_EQ(next, count);
  }
}

TEST(CoreRanks, RowsOfAllComeToAll) {
  const auto expected = torch::arange(22, torch::kFloat32).view({11, 2});
  for (const int count : {1, 2, 3, 5}) {
    const auto tables = on_ranks<torch::Tensor>(count, [&] {
      auto mine = torch::full({11, 2}, -1.0F);
      const auto own = own_share(4);  // blocks of three rows
      for (int64_t row = own.begin * 3;
           row < std::min<int64_t>(own.end * 3, 11); ++row) {
        mine[row].copy_(expected[row]);
      }
      exchange_rows(mine, 3);
      return mine;
    });
    for (const auto& table : tables) {
      EXPECT_TRUE(torch::equal(table, expected)) << count;
    }
  }
}

TEST(CoreRanks, WhatIsSentIsCounted) {
  const auto bytes = on_ranks<int64_t>(2, [] {
    const auto values = torch::zeros({10}, torch::kFloat64);
    if (ranks().is_first()) ranks().send(values, 1);
    if (!ranks().is_first()) ranks().receive(values, 0);
    ranks().broadcast(values, 1);
    EXPECT_GT(ranks().traffic().seconds, 0);
    return ranks().traffic().bytes;
  });
  EXPECT_EQ(bytes, (std::vector<int64_t>{160, 160}));
}

TEST(CoreRanks, OneThatFailsEndsAll) {
  EXPECT_THROW(on_ranks<int>(3,
                             [] {
                               if (ranks().rank() == 1) {
                                 throw std::runtime_error("disk full");
                               }
                               wait_for_all_ranks();
                               return 0;
                             }),
               std::runtime_error);
}

}  // namespace
}  // namespace propagator
