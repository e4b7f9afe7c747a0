#include "propagator/train/run_directory.h"

#include "propagator/core/files.h"
#include "testing.h"

namespace propagator::train {
namespace {

using testing::TemporaryFolder;
using testing::thrown;

const std::string kConfig = "task: forecast  # name of the task\nseed: 0\n";

// A run with one of each file, as training leaves it.
fs::path run_in(const TemporaryFolder& folder) {
  const auto path = folder / "run";
  RunDirectory::create(path, /*force=*/false, kConfig);
  for (const char* name :
       {"metrics.jsonl", "log.txt", "result.json", "report.html",
        "figures/loss.svg", "explain.json", "explain.html",
        ".tmp-result.json-1", "checkpoints/step-0000000001/state.json",
        "checkpoints/.tmp-a/b"}) {
    write_file_atomically(path / name, "");
  }
  return path;
}

TEST(TrainRunDirectory, ForceReplacesARun) {
  const TemporaryFolder folder;
  const auto path = run_in(folder);
  EXPECT_EQ(thrown<UsageError>([&] { RunDirectory::expect_free(path, false); }),
            path.string() + " exists already");
  RunDirectory::create(path, /*force=*/true, kConfig);
  EXPECT_FALSE(fs::exists(path / "log.txt"));
}

TEST(TrainRunDirectory, ForceReplacesNothingThatIsNotOurs) {
  const TemporaryFolder folder;
  const auto refused = [&](const fs::path& path, const std::string& why) {
    const auto message = thrown<UsageError>(
        [&] { RunDirectory::create(path, /*force=*/true, kConfig); });
    EXPECT_EQ(message,
              "--force replaces runs alone, not " + path.string() + ": " + why);
  };
  const auto path = run_in(folder);
  for (const std::string name :
       {"notes.txt", "checkpoints/model.pt", "other/x"}) {
    write_file_atomically(path / name, "dear");
    const auto top = name.substr(0, name.find("/x"));
    refused(path, "no run has a " + (path / top).string());
    EXPECT_EQ(read_file(path / name), "dear");
    fs::remove_all(path / top);
  }
  // A project of somebody's, such as many have.
  const std::string no_config =
      "it has no config.yaml that begins with a task, as that of a run";
  write_file_atomically(folder / "project/config.yaml", "model: x\n");
  fs::create_directories(folder / "project/checkpoints");
  refused(folder / "project", no_config);
  fs::remove(folder / "project/config.yaml");
  refused(folder / "project", no_config);
  write_file_atomically(folder / "file", "");
  refused(folder / "file", "it is not a folder");
  EXPECT_TRUE(fs::exists(folder / "file"));
}

TEST(TrainRunDirectory, AnEmptyFolderIsFree) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "run");
  EXPECT_NO_THROW(RunDirectory::create(folder / "run", true, kConfig));
}

TEST(TrainMetricsFile, LinesThatAreNotOursAreDropped) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  const std::string good = "{\"step\": 3}\n";
  write_file_atomically(
      path, "{\"step\": \"three\"}\n{\"step\": [3]}\n{\"step\": null}\n[3]\n" +
                good + "{\"step\": 5}\n" + std::string(100'000, '[') + "\n");
  MetricsFile(path, /*step=*/4);
  EXPECT_EQ(read_file(path), good);
}

}  // namespace
}  // namespace propagator::train
