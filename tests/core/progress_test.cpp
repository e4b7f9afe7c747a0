#include "propagator/core/progress.h"

#include "testing.h"

namespace propagator {
namespace {

constexpr auto kSilent = Progress::Style::kSilent;

TEST(CoreProgress, LineHasRateTimeLeftAndNote) {
  const Progress progress("training", 100, 0, kSilent);
  EXPECT_EQ(progress.line(60, "loss 0.1", 30),
            "training 60/100  2.0/s  20.0 s left  loss 0.1");
  EXPECT_EQ(progress.line(60, "", 30), "training 60/100  2.0/s  20.0 s left");
}

TEST(CoreProgress, SlowWorkIsTimedPerItem) {
  const Progress progress("solving", 100, 0, kSilent);
  EXPECT_EQ(progress.line(10, "", 120),
            "solving 10/100  12.0 s each  18 min 00 s left");
}

TEST(CoreProgress, ResumedWorkCountsOnlyItsOwn) {
  const Progress progress("training", 100, 40, kSilent);
  EXPECT_EQ(progress.line(60, "", 10), "training 60/100  2.0/s  20.0 s left");
}

TEST(CoreProgress, NoRateBeforeTheFirstItem) {
  const Progress progress("training", 100, 40, kSilent);
  EXPECT_EQ(progress.line(40, "", 10), "training 40/100");
  EXPECT_EQ(progress.line(60, "warm", 0), "training 60/100  warm");
}

TEST(CoreProgress, NothingIsLeftAtTheEnd) {
  const Progress progress("training", 100, 0, kSilent);
  EXPECT_EQ(progress.line(100, "", 10), "training 100/100  10.0/s  0.0 s left");
}

TEST(CoreProgress, ShortWorkAndSilencePrintNothing) {
  ::testing::internal::CaptureStderr();
  {
    Progress silent("a", 2, 0, kSilent);
    silent.update(1);
    Progress lines("b", 2, 0, Progress::Style::kLines);
    lines.update(1);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(CoreProgress, DurationInTwoUnits) {
  EXPECT_EQ(duration_text(0), "0.0 s");
  EXPECT_EQ(duration_text(1.23), "1.2 s");
  EXPECT_EQ(duration_text(59.9), "59.9 s");
  EXPECT_EQ(duration_text(60), "1 min 00 s");
  EXPECT_EQ(duration_text(185.7), "3 min 05 s");
  EXPECT_EQ(duration_text(3599.9), "59 min 59 s");
  EXPECT_EQ(duration_text(3600), "1 h 00 min");
  EXPECT_EQ(duration_text(7800), "2 h 10 min");
  EXPECT_EQ(duration_text(100 * 3600 + 59), "100 h 00 min");
}

}  // namespace
}  // namespace propagator
