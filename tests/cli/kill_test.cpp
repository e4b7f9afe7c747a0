// A run killed with SIGKILL at random moments and resumed each time ends in
// the same bits as a run that nobody touched.

#include <signal.h>
#include <torch/cuda.h>

#include <chrono>
#include <thread>

#include "command.h"
#include "processes.h"
#include "propagator/core/files.h"
#include "propagator/core/random.h"
#include "testing.h"

namespace propagator {
namespace {

using testing::start;
using testing::status_of;
using testing::TemporaryFolder;
using testing::tiny;
using testing::wait_until;
using testing::weights;
using Clock = std::chrono::steady_clock;

// Whether a process has a handler for the signal.
bool handles(pid_t process, int signal) {
  const auto status = read_file(fmt::format("/proc/{}/status", process));
  const std::string name = "SigCgt:";
  const auto caught =
      std::stoull(status.substr(status.find(name) + name.size()), nullptr, 16);
  return caught >> (signal - 1) & 1;
}

double seconds_of(const std::string& arguments) {
  const auto begin = Clock::now();
  const auto outcome = testing::propagator(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// With units taken from the data, which a checkpoint must hold too. On the CPU,
// where starting takes less time than the steps do.
const std::vector<std::string> kOptions{
    "--device", "cpu",
    "-s",       "train.max_steps=1500",
    "-s",       "train.checkpoint_every=10",
    "-s",       "model.predicts=scaled_change",
    "-s",       "model.scaling=case"};

TEST(Kill, TenTimesAtRandomMomentsGivesTheSameBits) {
  const TemporaryFolder folder;
  const std::string runs = folder.path().string();
  const double start_up = seconds_of("check " + tiny());
  const double whole =
      seconds_of("train " + tiny() + " --runs " + runs + " --name calm " +
                 fmt::format("{}", fmt::join(kOptions, " ")));
  const RandomStream moments(Clock::now().time_since_epoch().count(),
                             "moments");
  int kills = 0;
  std::vector<std::string> train{"train", tiny(),   "--runs",
                                 runs,    "--name", "killed"};
  train.insert(train.end(), kOptions.begin(), kOptions.end());
  for (; kills < 10; ++kills) {
    const bool first = kills == 0;
    const pid_t child =
        first ? start(train) : start({"resume", runs + "/killed"});
    // Before that there is nothing to resume.
    if (first) {
      wait_until([&] { return fs::exists(folder / "killed/config.yaml"); });
    }
    const double wait =
        start_up + whole * (0.01 + 0.05 * moments.uniform(0, kills));
    std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    kill(child, SIGKILL);
    ASSERT_EQ(status_of(child), 128 + SIGKILL)
        << "it ended before kill " << kills;
  }
  const auto last = testing::propagator("resume " + runs + "/killed");
  ASSERT_EQ(last.status, 0) << last.output;
  EXPECT_EQ(weights(folder / "killed"), weights(folder / "calm"));
  for (const auto& entry :
       fs::directory_iterator(folder / "killed" / "checkpoints")) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("step-"));
  }
}

TEST(Kill, FirstSignalStopsWithAGoodCheckpoint) {
  const TemporaryFolder folder;
  const std::string runs = folder.path().string();
  const pid_t child =
      start({"train", tiny(), "--runs", runs, "--name", "r", "-s",
             "train.max_steps=100000000", "-s", "train.validate_every=100"});
  wait_until([&] { return fs::exists(folder / "r" / "metrics.jsonl"); });
  kill(child, SIGTERM);
  EXPECT_EQ(status_of(child), 75);
  EXPECT_EQ(testing::propagator("check " + runs + "/r").status, 0);
  EXPECT_FALSE(fs::exists(folder / "r" / "result.json"));
  const auto limited =
      testing::propagator("resume " + runs + "/r --time-limit 0.1s");
  EXPECT_EQ(limited.status, 75);
  EXPECT_NE(limited.output.find("by the time limit of"), std::string::npos);
  // Of that session only: the next one goes on to the end.
  EXPECT_EQ(read_file(folder / "r" / "config.yaml").find("time_limit: 0.1"),
            std::string::npos);
}

// Batch systems stop a job so: timeout(1), when its time is over or it is told
// to, signals its child and then the whole group, which is one request to stop
// and not two.
TEST(Kill, TheTwoSignalsOfTimeoutAreOneRequest) {
  const TemporaryFolder folder;
  const std::string runs = folder.path().string();
  for (int attempt = 0; attempt < 5; ++attempt) {
    const auto name = "r" + std::to_string(attempt);
    const pid_t child = testing::start_command(
        {"timeout", "--preserve-status", "600", testing::program(), "train",
         tiny(), "--runs", runs, "--name", name, "-s",
         "train.max_steps=100000000", "-s", "train.validate_every=100"});
    wait_until([&] { return fs::exists(folder / name / "metrics.jsonl"); });
    kill(child, SIGTERM);
    EXPECT_EQ(status_of(child), 75) << attempt;
  }
}

// While the step is at work that the first one waits for.
TEST(Kill, SecondSignalStopsAtOnceAndTheLastCheckpointIsGood) {
  const TemporaryFolder folder;
  const std::string runs = folder.path().string();
  const auto trained =
      testing::propagator("train " + tiny() + " --runs " + runs +
                          " --name r --device cpu -s train.max_steps=4");
  ASSERT_EQ(trained.status, 0) << trained.output;
  const auto before = weights(folder / "r");
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto output = folder / "output";
    const pid_t child = start({"resume", runs + "/r", "-s", "train.max_steps=8",
                               "-s", "train.accumulate=200000"},
                              output);
    wait_until([&] { return handles(child, signal); });
    kill(child, signal);
    wait_until([&] {
      return read_file(output).find("once more stops at once") !=
             std::string::npos;
    });
    EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "it did not wait";
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    kill(child, signal);
    EXPECT_EQ(status_of(child), 128 + signal);
    EXPECT_EQ(weights(folder / "r"), before);
  }
  const auto check = testing::propagator("check " + runs + "/r");
  EXPECT_EQ(check.status, 0);
  EXPECT_NE(check.output.find("step 4"), std::string::npos) << check.output;
}

// The first steps of a resumed run are launched one operator at a time, those
// of the calm one come from a graph: the bits must not tell.
TEST(Kill, AResumedRunOnCudaGivesTheSameBits) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  for (const std::string mask : {"block", "causal"}) {
    const TemporaryFolder folder;
    const std::string run = (folder / "run").string();
    const auto calm = testing::propagator(
        "train " + tiny() + " --device cuda --runs " + folder.path().string() +
        " --name run -s train.max_steps=60 -s train.checkpoint_every=20"
        " -s train.keep_checkpoints=10 -s model.width=64 -s model.heads=2"
        " -s model.predicts=scaled_change -s model.scaling=case"
        " -s model.mask=" +
        mask);
    ASSERT_EQ(calm.status, 0) << calm.output;
    const auto expected = weights(run);
    const auto resumed = testing::propagator(
        "resume " + run + " --from " + run + "/checkpoints/step-0000000020");
    ASSERT_EQ(resumed.status, 0) << resumed.output;
    EXPECT_TRUE(weights(run) == expected) << mask;
  }
}

}  // namespace
}  // namespace propagator
