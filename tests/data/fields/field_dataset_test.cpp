#include "propagator/data/fields/field_dataset.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "propagator/core/error.h"
#include "propagator/data/fields/field_summary.h"
#include "testing.h"

namespace propagator::data {
namespace {

using testing::random;
using torch::Tensor;

class DataFieldDataset : public ::testing::Test {
 protected:
  void SetUp() override { write(random({20, 12, 10}, "k")); }
  void write(const Tensor& constant) const {
    save_tensors(folder_ / "a.h5", {{{"u", random({20, 7, 12, 10, 2}, "u")},
                                     {"k", constant},
                                     {"nu", random({20}, "nu")}},
                                    ""});
  }
  FieldSource source() const { return {folder_ / "a.h5", {}}; }
  testing::TemporaryFolder folder_;
};

TEST_F(DataFieldDataset, StreamedNumbersAreThoseInMemory) {
  for (const auto precision : {Precision::kFloat32, Precision::kFloat64}) {
    Runtime runtime;
    runtime.precision = precision;
    const FieldDataset kept(source(), source().split(1), runtime,
                            Storage::kMemory),
        streamed(source(), source().split(1), runtime, Storage::kStream);
    EXPECT_TRUE(kept.in_memory());
    EXPECT_FALSE(streamed.in_memory());
    EXPECT_TRUE(torch::equal(kept.fingerprint(), streamed.fingerprint()));
    for (const auto split :
         {Split::kTrain, Split::kValidation, Split::kTest, Split::kAll}) {
      ASSERT_EQ(kept.windows(split, 3), streamed.windows(split, 3));
      const auto at = torch::arange(kept.windows(split, 3)).flip(0);
      streamed.expect_windows(split, at, 3);
      const auto a = kept.windows_at(split, at, 3),
                 b = streamed.windows_at(split, at, 3);
      EXPECT_TRUE(torch::equal(a.frames, b.frames));
      EXPECT_TRUE(torch::equal(a.parameters, b.parameters));
      EXPECT_TRUE(torch::equal(a.constants, b.constants));
      const auto c = kept.range(split, 1, 5), d = streamed.range(split, 1, 5);
      EXPECT_TRUE(torch::equal(c.frames, d.frames));
      EXPECT_TRUE(torch::equal(c.parameters, d.parameters));
      EXPECT_TRUE(torch::equal(c.constants, d.constants));
      EXPECT_TRUE(
          torch::equal(kept.parameters(split), streamed.parameters(split)));
    }
  }
}

TEST_F(DataFieldDataset, WhatFitsIsKept) {
  const Runtime runtime;
  const FieldDataset data(source(), source().split(1), runtime);
  EXPECT_TRUE(data.in_memory());
  EXPECT_EQ(data.bytes(), (20 * 7 * 12 * 10 * 2 + 20 * 12 * 10) * 4.0);
}

// Each window has those of its case, and other ones are other data.
TEST_F(DataFieldDataset, ConstantInputsAreOfTheirCases) {
  const Runtime runtime;
  const auto split = source().split(1);
  const FieldDataset data(source(), split, runtime);
  const auto k = random({20, 12, 10}, "k").to(torch::kFloat32);
  const auto got =
      data.windows_at(Split::kTrain, torch::tensor({0, 4, 5, 12}), 3).constants;
  const int64_t cases[] = {0, 0, 1, 2};
  for (int64_t n = 0; n < 4; ++n) {
    const auto number = split.train[static_cast<size_t>(cases[n])];
    EXPECT_TRUE(torch::equal(got[n].squeeze(-1), k[number]));
  }
  const auto before = data.fingerprint();
  ASSERT_EQ(before.numel(), 3);
  write(random({20, 12, 10}, "other"));
  const FieldDataset other(source(), split, runtime);
  EXPECT_TRUE(torch::equal(other.fingerprint().narrow(0, 0, 2),
                           before.narrow(0, 0, 2)));
  EXPECT_FALSE(torch::equal(other.fingerprint(), before));
}

TEST(DataReadAhead, ComputesWhatIsExpectedOnAnotherThread) {
  std::promise<void> begun;
  std::atomic<int> computed = 0;
  const auto here = std::this_thread::get_id();
  ReadAhead<int, int> ahead(
      [&](const int& key) {
        if (key == 3) {
          EXPECT_NE(std::this_thread::get_id(), here);
          begun.set_value();
        }
        if (key == 5) throw DataError("five");
        ++computed;
        return 10 * key;
      },
      2);
  ahead.expect(3);
  begun.get_future().wait();
  EXPECT_EQ(ahead.take(3), 30);
  EXPECT_EQ(ahead.ahead(), 1);
  // What nobody expected is computed here.
  EXPECT_EQ(ahead.take(4), 40);
  EXPECT_EQ(computed, 2);
  ahead.expect(5);
  EXPECT_THROW(ahead.take(5), DataError);
  // Of many that are never taken only the last are held, and none is waited
  // for at the end.
  for (int key = 6; key < 50; ++key) ahead.expect(key);
  EXPECT_EQ(ahead.take(6), 60);
}

// Numbers that are read when they are used must be those that were checked.
TEST_F(DataFieldDataset, AFileThatChangesWhileItIsReadIsNoticed) {
  const Runtime runtime;
  const auto split = source().split(1);
  const FieldDataset streamed(source(), split, runtime, Storage::kStream),
      kept(source(), split, runtime, Storage::kMemory);
  const auto at = torch::arange(2);
  EXPECT_NO_THROW(streamed.windows_at(Split::kTrain, at, 3));
  write(random({20, 12, 10}, "another"));
  fs::last_write_time(folder_ / "a.h5", fs::last_write_time(folder_ / "a.h5") +
                                            std::chrono::seconds(1));
  const auto error = testing::thrown<DataError>(
      [&] { streamed.windows_at(Split::kTrain, at, 3); });
  EXPECT_NE(error.find("a.h5 has changed since"), std::string::npos) << error;
  EXPECT_THROW(streamed.range(Split::kTest, 0, 1), DataError);
  streamed.expect_windows(Split::kTrain, at, 3);  // from the other thread too
  EXPECT_THROW(streamed.windows_at(Split::kTrain, at, 3), DataError);
  EXPECT_NO_THROW(kept.windows_at(Split::kTrain, at, 3));
  fs::remove(folder_ / "a.h5");
  EXPECT_THROW(streamed.range(Split::kTest, 0, 1), DataError);
}

TEST_F(DataFieldDataset, RangesAreThoseOfAllNumbers) {
  const auto all = source().values(0, 20).to(torch::kFloat64).flatten(0, -2);
  const auto ranges = channel_ranges(source());
  ASSERT_EQ(ranges.size(), 2u);
  for (int64_t c = 0; c < 2; ++c) {
    const auto one = all.select(1, c);
    const auto& range = ranges[static_cast<size_t>(c)];
    EXPECT_EQ(range.smallest, one.min().item<double>());
    EXPECT_EQ(range.largest, one.max().item<double>());
    EXPECT_NEAR(range.mean, one.mean().item<double>(), 1e-12);
    EXPECT_NEAR(range.deviation, one.std(false).item<double>(), 1e-12);
  }
}

TEST_F(DataFieldDataset, AWrittenCopyReadsBack) {
  const auto from = source();
  write_fields(from, folder_ / "b.h5", {{"made_by", "a test"}});
  const FieldSource copy(folder_ / "b.h5", {});
  EXPECT_TRUE(torch::equal(copy.values(0, 20), from.values(0, 20)));
  EXPECT_TRUE(torch::equal(copy.parameters(), from.parameters()));
  EXPECT_EQ(copy.layout().constants, from.layout().constants);
  EXPECT_TRUE(torch::equal(copy.constants(0, 20), from.constants(0, 20)));
  const auto ranges = constant_ranges(copy);
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].largest, from.constants(0, 20).max().item<double>());
  EXPECT_EQ(copy.layout().channels, from.layout().channels);
  EXPECT_EQ(copy.note().at("made_by"), "a test");
  EXPECT_FALSE(copy.has_split());
  write_fields(copy, folder_ / "c.h5", {{"split", {12, 5, 3}}});
  const FieldSource split(folder_ / "c.h5", {});
  EXPECT_EQ(split.split(7).train.size(), 12u);
  EXPECT_EQ(split.split(7).test.front(), 17);
  write_fields(split, folder_ / "d.h5", {});
  EXPECT_EQ(FieldSource(folder_ / "d.h5", {}).split(0).validation.size(), 5u);
  write_fields(copy, folder_ / "e.h5", {{"split", {12, 5, 4}}});
  EXPECT_NE(testing::thrown<DataError>([&] {
              FieldSource(folder_ / "e.h5", {});
            }).find("expected three counts of its 20 cases"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::data
