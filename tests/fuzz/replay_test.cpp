#include <sys/resource.h>

#include <fstream>

#include "fuzz/mutation.h"
#include "fuzz/target.h"
#include "propagator/core/stopwatch.h"
#include "testing.h"

namespace propagator::fuzz {

// For GoogleTest.
void PrintTo(const Target& target, std::ostream* stream) {
  *stream << target.name;
}

namespace {

// So many damaged inputs of each target; scripts/fuzz searches for longer.
constexpr int kMutations = 2000;
constexpr double kLongest = 10;           // s, of one input
constexpr int64_t kMostMemory = 1 << 20;  // kB more than before

int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// From now on; what other tests took is forgotten.
void restart_peak_memory() { std::ofstream("/proc/self/clear_refs") << 5; }

class Fuzz : public ::testing::TestWithParam<Target> {};

// An input that ends the process is left in scratch_folder()/input.
bool survives(const Target& target, const std::string& input) {
  scratch_file("input", input);
  try {
    return accepts(target, input);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << " of "
                  << ::testing::PrintToString(input.substr(0, 4000));
    return false;
  }
}

TEST_P(Fuzz, TakesItsSeedsAndSurvivesDamageToThem) {
  const auto seeds = GetParam().seeds();
  ASSERT_FALSE(seeds.empty());
  restart_peak_memory();
  const int64_t before = peak_memory();
  for (const auto& seed : seeds)
    EXPECT_TRUE(survives(GetParam(), seed)) << seed;
  Mutation mutation(seeds, 20);
  for (int n = 0; n < kMutations && !HasFailure(); ++n) {
    const Stopwatch stopwatch;
    survives(GetParam(), mutation.next());
    EXPECT_LT(stopwatch.seconds(), kLongest) << "at mutation " << n;
  }
  EXPECT_LT(peak_memory() - before, kMostMemory);
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Fuzz,
                         ::testing::ValuesIn(all_targets(PROPAGATOR_SOURCE)),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace propagator::fuzz
