// How long a user waits for what needs no work. Bounds are generous, for
// machines that have other things to do: scripts/start-times measures.

#include <gtest/gtest.h>

#include <algorithm>

#include "command.h"
#include "propagator/core/stopwatch.h"

namespace propagator {
namespace {

// The fastest of some: whatever else the machine does can only add to it.
double seconds_of(const std::string& words) {
  double fastest = 1e9;
  for (int n = 0; n < 5; ++n) {
    const Stopwatch clock;
    EXPECT_EQ(testing::propagator(words).status, 0) << words;
    fastest = std::min(fastest, clock.seconds());
  }
  return fastest;
}

TEST(VerbsStartTimes, HelpAndListAnswerAtOnce) {
  // To load libtorch alone takes longer.
  for (const char* words : {"--help", "train --help", "list", "list --json"}) {
    EXPECT_LT(seconds_of(words), 0.1) << words;
  }
}

}  // namespace
}  // namespace propagator
