#include "propagator/run/run.h"

#include <ATen/Parallel.h>
#include <signal.h>

#include <thread>

#include "propagator/core/files.h"
#include "propagator/data/named_table.h"
#include "propagator/run/predict.h"
#include "propagator/run/run_report.h"
#include "propagator/run/train.h"
#include "run/line_task.h"
#include "testing.h"

namespace propagator::run {
namespace {

using testing::TemporaryFolder;
using testing::thrown;

// A task of the test's own: nothing but this knows its name.
class RunOfALine : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    tasks::add_task("line", {.help = "a line through points",
                             .make = [](const config::Document&) {
                               return std::make_unique<testing::LineTask>();
                             }});
  }

  static std::unique_ptr<Experiment> experiment(const std::string& more) {
    return std::make_unique<Experiment>(config::Document::from_text(
        "task: line\nname: line\ndevice: cpu\ntrain: {max_steps: 60, "
        "checkpoint_every: 10, keep_checkpoints: 9}\n" +
            more,
        "line"));
  }
  Trained train(const std::string& name,
                const std::string& more = "report.page: no\n") {
    return run::train(*experiment(more), folder / name, false, observer);
  }
  std::string weights(const std::string& name, int64_t step) const {
    return read_file(
        train::checkpoint_path(folder / name / "checkpoints", step) /
        "model.safetensors");
  }

  // Asks to stop after so many steps, and counts what it hears.
  struct Impatient : Observer {
    void log(Level, const std::string&) override { ++lines; }
    void training_began() override { ++began; }
    void training_ended() override { ++ended; }
    bool stop_requested() override { return ++steps == stop_at; }

    int stop_at = 0, steps = 0, lines = 0, began = 0, ended = 0;
  } observer;
  TemporaryFolder folder;
};

TEST_F(RunOfALine, TrainsEvaluatesAndStoresTheWholeEvaluation) {
  const auto trained = train("a");
  ASSERT_TRUE(trained.result);
  EXPECT_EQ(trained.steps, 60);
  EXPECT_LT(trained.result->evaluation.metrics.front().value, 0.05);
  const auto read = read_result(train::RunDirectory::open(folder / "a"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->evaluation.table.text(),
            trained.result->evaluation.table.text());
  EXPECT_EQ(read->record, trained.result->record);
  EXPECT_EQ(read->record.at("mse"), read->evaluation.metrics.front().value);
}

TEST_F(RunOfALine, AResultWithPartsThatAreNotOursIsDamaged) {
  const auto record = train("a").result->record;
  const auto directory = train::RunDirectory::open(folder / "a");
  for (const auto& [key, value] : {std::pair{"leak_audit", nlohmann::json(3)},
                                   {"leak_audit", {{"leaks", 0}}},
                                   {"config_sha256", nullptr},
                                   {"training_seconds", "long"}}) {
    auto damaged = record;
    damaged[key] = value;
    write_file_atomically(directory.result(), damaged.dump());
    const auto message = thrown<DataError>([&] { read_result(directory); });
    EXPECT_NE(message.find(key), std::string::npos) << message;
  }
}

TEST_F(RunOfALine, StopsOnRequestAndResumesToTheSameBits) {
  train("whole");
  observer.stop_at = observer.steps + 25;
  const auto stopped = train("cut");
  EXPECT_TRUE(stopped.stopped());
  EXPECT_EQ(stopped.reason, train::StopReason::kRequest);
  EXPECT_EQ(stopped.steps, 25);
  EXPECT_FALSE(fs::exists(folder / "cut" / "result.json"));
  const auto resumed = resume(folder / "cut", {}, observer);
  ASSERT_TRUE(resumed.result);
  EXPECT_EQ(weights("cut", 60), weights("whole", 60));
  EXPECT_EQ(observer.began, 3);
  EXPECT_EQ(observer.ended, 3);
}

TEST_F(RunOfALine, IsAppliedFromSeveralThreadsAtOnce) {
  train("a");
  const auto run = open(folder / "a");
  const auto x = torch::linspace(-1, 1, 7);
  const auto expected = run.apply({{"x", x}}).at("y");
  EXPECT_NEAR((expected[6] - expected[0]).item<double>(), 4, 0.5);
  std::vector<std::thread> threads;
  std::atomic<int> same = 0;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        same += torch::equal(run.apply({{"x", x}}).at("y"), expected);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(same, 200);
}

TEST_F(RunOfALine, PredictIsReadingApplyingAndWriting) {
  train("a");
  const auto run = open(folder / "a");
  const auto x = torch::linspace(-1, 1, 5, torch::kFloat64);
  data::write_table(folder / "x.csv", {{"x", x}}, "");
  EXPECT_EQ(predict(run, folder / "x.csv", folder / "y.h5"),
            "y (5) in " + (folder / "y.h5").string());
  EXPECT_TRUE(torch::equal(data::read_table(folder / "y.h5", {"y"}).at("y"),
                           run.apply({{"x", x}}).at("y")));
  data::write_table(folder / "z.csv", {{"z", x}}, "");
  EXPECT_NE(thrown<DataError>([&] {
              predict(run, folder / "z.csv", folder / "no.h5");
            }).find("z.csv: line 1: expected a column named 'x'"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "no.h5"));
}

TEST_F(RunOfALine, IsReported) {
  const auto trained = train("a", "report.page: yes\n");
  ASSERT_FALSE(trained.page.empty());
  const auto page = read_file(trained.page);
  EXPECT_NE(page.find("line: line"), std::string::npos);
  EXPECT_NE(page.find("loss"), std::string::npos);
}

TEST_F(RunOfALine, LeavesTheProcessAsItWas) {
  const int threads = at::get_num_threads();
  struct sigaction mine {
  }, after{};
  mine.sa_handler = SIG_IGN;
  sigaction(SIGTERM, &mine, nullptr);
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  train("a", "threads: 1\nreport.page: no\n");
  train("b", "threads: 1\nreport.page: no\n");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(at::get_num_threads(), threads);
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(after.sa_handler, SIG_IGN);
  signal(SIGTERM, SIG_DFL);
  // A run's log has its own lines and no other run's.
  const auto log = read_file(folder / "a" / "log.txt");
  EXPECT_NE(log.find((folder / "a").string()), std::string::npos);
  EXPECT_EQ(log.find((folder / "b").string()), std::string::npos);
}

TEST_F(RunOfALine, AResultOfAnOlderProgramIsTestedAgain) {
  train("a");
  const auto directory = train::RunDirectory::open(folder / "a");
  auto record = directory.read_result();
  record.erase("evaluation");
  record["steps"] = 61;  // what the training said is kept
  write_file_atomically(directory.result(), record.dump());
  const auto read = read_result(directory);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->record.at("steps"), 61);
  EXPECT_EQ(read->evaluation.metrics.front().value, record.at("mse"));
}

TEST_F(RunOfALine, KeysThatMadeTheWeightsCannotBeChanged) {
  train("a");
  const auto opened_with = [&](const std::string& assignment) {
    open(folder / "a", {.change = [&](config::Document& document) {
           document.override_with(assignment);
         }});
  };
  EXPECT_NO_THROW(opened_with("threads=1"));
  EXPECT_NE(thrown<ConfigError>([&] {
              opened_with("line.slope=3");
            }).find("belongs to the run"),
            std::string::npos);
}

}  // namespace
}  // namespace propagator::run
