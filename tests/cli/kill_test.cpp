// A run killed with SIGKILL at random moments and resumed each time ends in
// the same bits as a run that nobody touched.

#include <fcntl.h>
#include <signal.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "command.h"
#include "propagator/core/files.h"
#include "propagator/core/random.h"
#include "testing.h"

namespace propagator {
namespace {

using testing::program;
using testing::TemporaryFolder;
using testing::tiny;
using Clock = std::chrono::steady_clock;

// Starts the program; its output goes nowhere.
pid_t start(const std::vector<std::string>& arguments) {
  const pid_t child = fork();
  if (child != 0) return child;
  const int nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  std::vector<char*> words;
  const std::string name = program();
  words.push_back(const_cast<char*>(name.c_str()));
  for (const auto& word : arguments) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  execv(name.c_str(), words.data());
  _exit(127);
}

double seconds_of(const std::string& arguments) {
  const auto begin = Clock::now();
  const auto outcome = testing::propagator(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string weights(const fs::path& run) {
  fs::path last;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
    last = std::max(last, entry.path());
  }
  return read_file(last / "model.safetensors") +
         read_file(last / "optimizer.safetensors") +
         read_file(last / "best.safetensors");
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
    const double wait =
        start_up + whole * (0.01 + 0.05 * moments.uniform(0, kills));
    std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended before kill " << kills;
  }
  const auto last = testing::propagator("resume " + runs + "/killed");
  ASSERT_EQ(last.status, 0) << last.output;
  EXPECT_EQ(weights(folder / "killed"), weights(folder / "calm"));
  for (const auto& entry :
       fs::directory_iterator(folder / "killed" / "checkpoints")) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("step-"));
  }
}

TEST(Kill, FirstSignalStopsWithAGoodCheckpointSecondAtOnce) {
  const TemporaryFolder folder;
  const std::string runs = folder.path().string();
  const pid_t child =
      start({"train", tiny(), "--runs", runs, "--name", "r", "-s",
             "train.max_steps=100000000", "-s", "train.validate_every=100"});
  while (!fs::exists(folder / "r" / "metrics.jsonl")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(child, SIGTERM);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 75);
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
