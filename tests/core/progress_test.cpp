#include "propagator/core/progress.h"

#include "propagator/core/log.h"
#include "testing.h"

namespace propagator {
namespace {

std::string line(int64_t done, double rate, const std::string& note = "") {
  const std::string title = "training";
  const std::function<std::string()> say = [&] { return note; };
  return progress_line({title, done, 100, rate, 0, say});
}

TEST(CoreProgress, LineHasRateTimeLeftAndNote) {
  EXPECT_EQ(line(60, 2, "loss 0.1"),
            "training 60/100  2.0/s  20.0 s left  loss 0.1");
  EXPECT_EQ(line(60, 2), "training 60/100  2.0/s  20.0 s left");
}

TEST(CoreProgress, SlowWorkIsTimedPerItem) {
  EXPECT_EQ(line(10, 1.0 / 12),
            "training 10/100  12.0 s each  18 min 00 s left");
}

TEST(CoreProgress, NoTimeLeftBeforeItIsKnown) {
  EXPECT_EQ(line(40, 0), "training 40/100");
  EXPECT_EQ(line(60, 0, "warm"), "training 60/100  warm");
}

TEST(CoreProgress, NothingIsLeftAtTheEnd) {
  EXPECT_EQ(line(100, 10), "training 100/100  10.0/s  0.0 s left");
}

TEST(CoreProgress, RateIsWithoutTheFirstStepAndEarlierSessions) {
  RecentRate rate(40);
  EXPECT_EQ(rate.at(40, 0.1), 0);
  EXPECT_EQ(rate.at(41, 20), 0);  // a warm-up of 20 s
  EXPECT_EQ(rate.at(42, 20.1), 0);
  EXPECT_NEAR(rate.at(91, 25), 10, 1e-9);
}

TEST(CoreProgress, RateFollowsWhatIsSlowerNow) {
  RecentRate rate(0);
  double seconds = 0;
  int64_t done = 0;
  const auto work = [&](int64_t steps, double each) {
    double now = 0;
    for (int64_t n = 0; n < steps; ++n) now = rate.at(++done, seconds += each);
    return now;
  };
  EXPECT_NEAR(work(1000, 0.1), 10, 1e-9);
  EXPECT_NEAR(work(200, 1), 1, 1e-9);
}

// Writes down what it is told.
struct Clerk : Observer {
  void log(Level level, const std::string& text) override {
    heard.push_back((level == Level::kWarning ? "warning: " : "") + text);
  }
  void progress(const Step& step) override {
    heard.push_back(
        fmt::format("{} {} of {}", step.title, step.done, step.total));
  }
  void progress_ended() override { heard.push_back("ended"); }

  std::vector<std::string> heard;
};

TEST(CoreObserver, IsToldWhatItsThreadDoesWhileItsScopeLives) {
  Clerk clerk, inner;
  const auto work = [] {
    Progress progress("counting", 3);
    progress.update(2);
    log::info("{} and {}", 1, 2);
    log::warn("odd");
  };
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  work();  // nobody listens
  {
    const ObserverScope scope(clerk);
    {
      const ObserverScope closer(inner);
      log::info("inner");
    }
    work();
  }
  work();
  EXPECT_EQ(clerk.heard, (std::vector<std::string>{"counting 2 of 3", "1 and 2",
                                                   "warning: odd", "ended"}));
  EXPECT_EQ(inner.heard, (std::vector<std::string>{"inner"}));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
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
