#include "propagator/core/trial.h"

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include "testing.h"

namespace propagator {
namespace {

TEST(CoreTrial, WorkThatEndsEndsWell) {
  int touched = 0;
  EXPECT_TRUE(ends_well([&] { touched = 1; }));
  EXPECT_EQ(touched, 0) << "a copy did it";
}

TEST(CoreTrial, NeitherAnExceptionNorACrashIsAGoodEnd) {
  EXPECT_FALSE(ends_well([] { throw std::runtime_error("refused"); }));
  EXPECT_FALSE(ends_well([] { std::abort(); }));
}

TEST(CoreTrial, NeitherComputingNorWaitingGoesOnForEver) {
  const auto compute = [] {
    volatile bool forever = true;
    while (forever) {
    }
  };
  EXPECT_FALSE(ends_well(compute, {.computing_seconds = 1}));
  EXPECT_FALSE(ends_well([] { pause(); }, {.seconds = 1}));
}

TEST(CoreTrial, MemoryHasABound) {
  const auto take = [](std::size_t bytes) {
    std::vector<char> taken(bytes);
    volatile char* used = taken.data();  // or a compiler may leave it all out
    used[bytes - 1] = 1;
  };
  EXPECT_TRUE(ends_well([&] { take(std::size_t{1} << 28); }));
  EXPECT_FALSE(ends_well([&] { take(std::size_t{3} << 30); }));
}

}  // namespace
}  // namespace propagator
