// Trainings that mpirun starts on several processes, more than there are cores.

#include <fmt/format.h>
#include <signal.h>

#include <chrono>

#include "command.h"
#include "processes.h"
#include "propagator/core/files.h"
#include "propagator/core/process.h"
#include "testing.h"

namespace propagator {
namespace {

using testing::Outcome;
using testing::shell;
using testing::status_of;
using testing::TemporaryFolder;
using testing::tiny;
using testing::wait_until;
using testing::weights;
using Clock = std::chrono::steady_clock;

// In all trainings here: what ranks share, and what would change bits.
constexpr const char* kShared =
    " --device cpu --threads 1 -s train.slices=4 -s train.batch=8";

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// The process of that rank that this mpirun has started; 0 if there is none.
pid_t process_of_rank(pid_t mpirun, int rank) {
  const auto started = fmt::format("/proc/{0}/task/{0}/children", mpirun);
  std::istringstream children(read_file(started));
  const auto name = fmt::format("OMPI_COMM_WORLD_RANK={}", rank) + '\0';
  for (pid_t child = 0; children >> child;) {
    const auto environment = fmt::format("/proc/{}/environ", child);
    if (read_file(environment).find(name) != std::string::npos) return child;
  }
  return 0;
}

class Mpirun : public ::testing::Test {
 protected:
  void SetUp() override {
    // As CI runs: as root, in a container.
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
    const auto info = testing::propagator("info --json");
    const bool has_mpi = info.output.find("\"mpi\": true") != std::string::npos;
    if (!has_mpi || find_program("mpirun").empty()) {
      GTEST_SKIP() << "no MPI here";
    }
  }

  std::string new_run(const std::string& name,
                      const std::string& config = tiny()) const {
    return fmt::format("train {} --runs {} --name {}{}", config,
                       folder.path().string(), name, kShared);
  }
  // One process alone needs no mpirun.
  static Outcome on(int ranks, const std::string& arguments) {
    if (ranks == 1) return testing::propagator(arguments);
    return shell(fmt::format("mpirun --oversubscribe -np {} {} {}", ranks,
                             testing::program(), arguments));
  }
  // A training that does not end.
  std::string endless(const std::string& name) const {
    return fmt::format(
        "{} {} -s train.max_steps=100000000 -s train.validate_every=10",
        testing::program(), new_run(name));
  }
  // Starts mpirun with these words; returns once the run has a checkpoint.
  pid_t start_endless(const std::string& name, const std::string& words) const {
    std::vector<std::string> command{"mpirun", "--oversubscribe"};
    std::istringstream stream(words);
    for (std::string word; stream >> word;) command.push_back(word);
    const auto mpirun = testing::start_command(command, folder / "output");
    const auto checkpoints = folder / name / "checkpoints";
    wait_until(
        [&] { return fs::exists(checkpoints) && !fs::is_empty(checkpoints); });
    return mpirun;
  }
  pid_t start_endless(const std::string& name) const {
    return start_endless(name, "-np 2 " + endless(name));
  }
  void expect_good_checkpoint(const std::string& run) const {
    const auto check = testing::propagator("check " + (folder / run).string());
    EXPECT_EQ(check.status, 0) << check.output;
  }

  TemporaryFolder folder;
};

TEST_F(Mpirun, OneTwoAndFourFindTheSameBits) {
  const std::string steps =
      " -s train.max_steps=40 -s train.validate_every=20"
      " -s train.accumulate=2 -s model.predicts=scaled_change"
      " -s model.scaling=case";
  for (const int count : {1, 2, 4}) {
    const auto name = fmt::format("on{}", count);
    const auto outcome = on(count, new_run(name) + steps);
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_EQ(count_of(outcome.output, "result.json"), 1) << outcome.output;
    EXPECT_TRUE(weights(folder / name) == weights(folder / "on1")) << count;
    EXPECT_EQ(testing::propagator("check " + (folder / name).string()).status,
              0);
  }
}

TEST_F(Mpirun, SolveByAMethodOverAllCasesToo) {
  const auto problem = folder / "reaction.yaml";
  write_file(problem,
             "task: solve\n"
             "problem:\n"
             "  domain: ['x in [0, 1]', 't in [0, 1]']\n"
             "  fields: u\n"
             "  equations: [u_t = u*(1 - u)]\n"
             "  conditions: ['at t=0: u = 0.5 + 0.1*sin(pi*x)']\n"
             "model: {name: pinn, width: 8, layers: 2}\n"
             "points: {per_axis: 9}\n"
             "optimizer: {kind: lbfgs, adam_steps: 5}\n"
             "train: {max_steps: 12}\n"
             "report: {page: no}\n");
  for (const int count : {1, 2, 4}) {
    const auto name = fmt::format("on{}", count);
    const auto outcome = on(count, new_run(name, problem.string()));
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_TRUE(weights(folder / name) == weights(folder / "on1")) << count;
  }
}

TEST_F(Mpirun, AnotherNumberGoesOnToTheSameBits) {
  const std::string steps =
      " -s train.max_steps=40 -s train.checkpoint_every=20";
  ASSERT_EQ(on(1, new_run("whole") + steps).status, 0);
  ASSERT_EQ(on(4, new_run("cut") + steps).status, 0);
  const auto resumed = on(2, "resume " + (folder / "cut").string() +
                                 " --threads 1 --from step-0000000020");
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  EXPECT_TRUE(weights(folder / "cut") == weights(folder / "whole"));
}

TEST_F(Mpirun, OneThatIsKilledEndsAllAndTheLastCheckpointIsGood) {
  for (const int rank : {0, 1}) {
    const auto name = fmt::format("killed{}", rank);
    const auto mpirun = start_endless(name);
    const auto begin = Clock::now();
    kill(process_of_rank(mpirun, rank), SIGKILL);
    EXPECT_NE(status_of(mpirun), 0);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
    expect_good_checkpoint(name);
    const auto resumed = on(2, "resume " + (folder / name).string() +
                                   " --threads 1 --time-limit 0.1s");
    EXPECT_EQ(resumed.status, 75) << resumed.output;
  }
}

// The disk of one rank's machine goes away: its copy of the data, which it
// reads batch by batch, is cut while it trains.
TEST_F(Mpirun, OneThatFailsEndsAllAndTheLastCheckpointIsGood) {
  for (const auto& place : {"here", "there"}) {
    fs::create_directories(folder / place);
    const auto file = (folder / place / "plates.h5").string();
    const auto made =
        testing::propagator("data generate " + tiny() + " --out " + file);
    ASSERT_EQ(made.status, 0) << made.output;
  }
  for (const auto& [failing, rank] : {std::pair{"here", 0}, {"there", 1}}) {
    const auto name = fmt::format("fails{}", rank);
    const auto in = [&](const std::string& place) {
      return fmt::format(
          "-np 1 --wdir {} {} -s data.file=plates.h5 -s data.storage=stream",
          (folder / place).string(), endless(name));
    };
    const auto mpirun = start_endless(name, in("here") + " : " + in("there"));
    const auto file = folder / failing / "plates.h5";
    const auto whole = read_file(file);
    const auto begin = Clock::now();
    fs::resize_file(file, 0);
    EXPECT_EQ(status_of(mpirun), 3);
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
    const auto said = read_file(folder / "output");
    EXPECT_EQ(count_of(said, "error: plates.h5 is damaged"), 1) << said;
    EXPECT_EQ(count_of(said, fmt::format("rank {}:", rank)), rank) << said;
    expect_good_checkpoint(name);
    write_file(file, whole);
  }
}

TEST_F(Mpirun, ASignalToOneStopsAllWithAGoodCheckpoint) {
  const auto mpirun = start_endless("stopped");
  kill(process_of_rank(mpirun, 1), SIGTERM);
  EXPECT_EQ(status_of(mpirun), 75);
  const auto said = read_file(folder / "output");
  EXPECT_EQ(count_of(said, "with a good checkpoint"), 1) << said;
  expect_good_checkpoint("stopped");
}

TEST_F(Mpirun, WhatWasStartedWronglyIsSaid) {
  struct Wrong {
    std::string command;
    int status;
    std::string answer;
  };
  const auto program = testing::program();
  const auto alone = [&](const std::string& arguments) {
    return fmt::format("-np 1 {} {}", program, arguments);
  };
  const auto missing = (folder / "none.yaml").string();
  const std::vector<Wrong> all{
      {"-np 8 " + program + " " + new_run("a"), 2,
       "train.slices=4 cannot be shared by 8 ranks"},
      {"-np 2 " + program + " " + new_run("a") + " -s train.slices=9", 2,
       "a batch of 8 cases cannot be cut into 9 slices"},
      {alone(new_run("a")) + " : " + alone(new_run("a") + " -s train.batch=4"),
       2, "rank 0 has train.batch=8, rank 1 has train.batch=4"},
      {alone(new_run("a")) + " : " + alone("train " + missing), 2, missing},
      {alone(new_run("a")) + " : " + alone(new_run("a") + " --bogus"), 2,
       "--bogus"},
      {"-np 2 " + program + " list", 2,
       "list works in one process, and 2 were started"},
  };
  for (const auto& wrong : all) {
    const auto begin = Clock::now();
    const auto outcome = shell("mpirun --oversubscribe " + wrong.command);
    EXPECT_EQ(outcome.status, wrong.status) << wrong.command << outcome.output;
    EXPECT_NE(outcome.output.find(wrong.answer), std::string::npos)
        << wrong.command << outcome.output;
    EXPECT_EQ(count_of(outcome.output, "error: "), 1) << outcome.output;
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
    EXPECT_FALSE(fs::exists(folder / "a")) << wrong.command;
  }
}

}  // namespace
}  // namespace propagator
