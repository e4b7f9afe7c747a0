#include "propagator/train/checkpoint.h"

#include <torch/nn/modules/linear.h>

#include <fstream>
#include <set>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/train/run_directory.h"
#include "testing.h"

namespace propagator::train {
namespace {

using propagator::testing::random;
using propagator::testing::TemporaryFolder;
using propagator::testing::thrown;

Checkpoint make_checkpoint() {
  Checkpoint checkpoint;
  checkpoint.model = {{"weight", random({2, 3}, "w")}};
  checkpoint.best = {{"weight", random({2, 3}, "b")}};
  checkpoint.optimizer = {{"m", random({6}, "m")}, {"v", random({6}, "v")}};
  checkpoint.state = {{"step", 12}};
  checkpoint.config = "seed: 1\n";
  return checkpoint;
}

TEST(TrainCheckpoint, RoundTrip) {
  const TemporaryFolder folder;
  const auto saved = make_checkpoint();
  const auto path = checkpoint_path(folder.path(), 12);
  save_checkpoint(path, saved);
  const auto loaded = load_checkpoint(path);
  EXPECT_TRUE(
      torch::equal(loaded.model.at("weight"), saved.model.at("weight")));
  EXPECT_TRUE(torch::equal(loaded.best.at("weight"), saved.best.at("weight")));
  EXPECT_TRUE(torch::equal(loaded.optimizer.at("v"), saved.optimizer.at("v")));
  EXPECT_EQ(loaded.state.at("step"), 12);
  EXPECT_EQ(loaded.config, "seed: 1\n");
}

TEST(TrainCheckpoint, SumsAreThoseOfSha256sum) {
  const TemporaryFolder folder;
  save_checkpoint(folder / "c", make_checkpoint());
  const std::string command = "cd " + (folder / "c").string() +
                              " && sha256sum -c SHA256SUMS >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(TrainCheckpoint, EveryFlippedByteIsFound) {
  const TemporaryFolder folder;
  const auto path = folder / "c";
  save_checkpoint(path, make_checkpoint());
  for (const std::string name :
       {"model.safetensors", "best.safetensors", "optimizer.safetensors",
        "state.json", "config.yaml", "SHA256SUMS"}) {
    const auto good = read_file(path / name);
    for (size_t at = 0; at < good.size(); ++at) {
      auto bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1);
      write_file(path / name, bad);
      EXPECT_THROW(load_checkpoint(path), DataError) << name << " " << at;
    }
    write_file(path / name, good);
  }
  EXPECT_NO_THROW(load_checkpoint(path));
}

TEST(TrainCheckpoint, TruncatedOrMissingFileIsNamed) {
  const TemporaryFolder folder;
  const auto path = folder / "c";
  save_checkpoint(path, make_checkpoint());
  fs::resize_file(path / "model.safetensors", 40);
  const auto message = thrown<DataError>([&] { load_checkpoint(path); });
  EXPECT_NE(message.find("model.safetensors is damaged"), std::string::npos);
  fs::remove(path / "model.safetensors");
  EXPECT_NE(thrown<DataError>([&] {
              load_checkpoint(path);
            }).find("is damaged: it has no model.safetensors"),
            std::string::npos);
  EXPECT_THROW(load_checkpoint(folder / "none"), FileError);
}

TEST(TrainCheckpoint, AStateWithoutItsStepIsDamaged) {
  const TemporaryFolder folder;
  auto checkpoint = make_checkpoint();
  for (const char* state :
       {"{}", "[]", "7", R"({"step": "7"})", R"({"step": -7})",
        R"({"step": 9223372036854775808})"}) {
    checkpoint.state = nlohmann::json::parse(state);
    save_checkpoint(folder / "c", checkpoint);
    EXPECT_NE(thrown<DataError>([&] {
                load_checkpoint(folder / "c");
              }).find("state.json is damaged"),
              std::string::npos)
        << state;
    fs::remove_all(folder / "c");
  }
}

TEST(TrainCheckpoint, WeightsOfAnotherModelAreRefused) {
  torch::nn::Linear module(3, 2);
  auto values = copy_parameters(*module);
  values["weight"] = torch::zeros({2, 4});
  auto message =
      thrown<DataError>([&] { set_parameters(*module, values, "file"); });
  EXPECT_NE(message.find("tensor weight: expected shape (2, 3), got (2, 4)"),
            std::string::npos)
      << message;
  values = copy_parameters(*module);
  values.erase("bias");
  message = thrown<DataError>([&] { set_parameters(*module, values, "file"); });
  EXPECT_NE(message.find("tensor bias is missing"), std::string::npos);
  values = copy_parameters(*module);
  values["extra"] = torch::zeros({1});
  message = thrown<DataError>([&] { set_parameters(*module, values, "file"); });
  EXPECT_NE(message.find("extra is not part"), std::string::npos);
}

TEST(TrainCheckpoint, RefusedWeightsLeaveTheModelAsItWas) {
  torch::nn::Linear module(3, 2);
  const auto before = copy_parameters(*module);
  auto values = before;
  values["bias"] = torch::ones({2});
  values["weight"] = torch::zeros({9});
  EXPECT_THROW(set_parameters(*module, values, "file"), DataError);
  EXPECT_TRUE(torch::equal(module->bias.detach(), before.at("bias")));
}

TEST(TrainCheckpoint, ListIsInOrderAndIgnoresUnfinished) {
  const TemporaryFolder folder;
  for (const int64_t step : {1000, 20, 300}) {
    save_checkpoint(checkpoint_path(folder.path(), step), make_checkpoint());
  }
  fs::create_directory(folder / ".tmp-step-0000002000-1");
  const auto all = list_checkpoints(folder.path());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all.front().filename(), "step-0000000020");
  EXPECT_EQ(all.back().filename(), "step-0000001000");
}

TEST(TrainRunDirectory, IsNeverOverwrittenUnasked) {
  const TemporaryFolder folder;
  const auto path = folder / "run";
  { RunDirectory::create(path, false, "task: 1\n"); }
  EXPECT_THROW(RunDirectory::create(path, false, "task: 2\n"), UsageError);
  EXPECT_EQ(read_file(path / "config.yaml"), "task: 1\n");
  { RunDirectory::create(path, true, "task: 2\n"); }
  EXPECT_EQ(read_file(path / "config.yaml"), "task: 2\n");
  // A folder that is no run is not replaced even by force.
  fs::create_directory(folder / "precious");
  write_file_atomically(folder / "precious" / "thesis.tex", "text");
  EXPECT_THROW(RunDirectory::create(folder / "precious", true, ""), UsageError);
  EXPECT_TRUE(fs::exists(folder / "precious" / "thesis.tex"));
}

TEST(TrainRunDirectory, KilledBeforeItHadAConfigurationItIsMadeAgain) {
  const TemporaryFolder folder;
  const auto path = folder / "run";
  fs::create_directory(path);
  write_file_atomically(path / ".tmp-config.yaml-7", "see");
  { RunDirectory::create(path, false, "seed: 1\n"); }
  EXPECT_EQ(read_file(path / "config.yaml"), "seed: 1\n");
  EXPECT_FALSE(fs::exists(path / ".tmp-config.yaml-7"));
}

TEST(TrainRunDirectory, ReplacedItKeepsNothing) {
  const TemporaryFolder folder;
  const auto path = folder / "run";
  { RunDirectory::create(path, false, "task: 1\n"); }
  for (const char* name : {"result.json", "log.txt", "figures/loss.svg",
                           "checkpoints/step-0000000001/state.json"}) {
    write_file_atomically(path / name, "old");
  }
  { RunDirectory::create(path, true, "task: 2\n"); }
  std::set<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    left.insert(entry.path().filename());
  }
  EXPECT_EQ(left, (std::set<std::string>{"config.yaml", "checkpoints"}));
}

TEST(TrainRunDirectory, OneWriterAtATime) {
  const TemporaryFolder folder;
  const auto run = RunDirectory::create(folder / "run", false, "task: 1\n");
  auto other = RunDirectory::open(folder / "run");
  EXPECT_THROW(other.lock(), UsageError);
  EXPECT_THROW(RunDirectory::create(folder / "run", true, "task: 1\n"),
               UsageError);
}

TEST(TrainMetrics, LinesOfALostFutureAreDropped) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsFile metrics(path, 0);
    for (int step = 1; step <= 4; ++step) metrics.write({{"step", step}});
  }
  std::ofstream(path, std::ios::app)
      << "{\"step\": \"1\"}\n{\"step\": 5, \"cut off";
  MetricsFile metrics(path, 2);
  metrics.write({{"step", 3}, {"again", true}});
  EXPECT_EQ(read_file(path),
            "{\"step\":1}\n{\"step\":2}\n{\"again\":true,\"step\":3}\n");
}

}  // namespace
}  // namespace propagator::train
