#include "propagator/train/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/json.h"
#include "propagator/train/checkpoint.h"

namespace propagator::train {
namespace {

// Whatever a run's folder may hold beside leftovers of writes.
constexpr std::string_view kParts[] = {
    "config.yaml", "metrics.jsonl", "log.txt",
    "checkpoints", "result.json",   "report.html",
    "figures",     "explain.json",  "explain.html"};

// Why a folder is not a run of ours; empty if it is one. A run that is replaced
// goes with all that is inside, so there may be nothing that we did not write.
std::string not_a_run(const fs::path& path) {
  if (!fs::is_directory(path)) return "it is not a folder";
  const auto config = path / "config.yaml";
  if (!fs::is_regular_file(config) || !read_file(config).starts_with("task:")) {
    return "it has no config.yaml that begins with a task, as that of a run";
  }
  const auto strange = [](const fs::path& folder, const auto& is_known) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const auto name = entry.path().filename().string();
      if (is_known(name) || is_unfinished(name)) continue;
      return fmt::format("no run has a {}", entry.path().string());
    }
    return std::string();
  };
  const auto found = strange(path, [](const std::string& name) {
    return std::ranges::find(kParts, name) != std::end(kParts);
  });
  const auto checkpoints = path / "checkpoints";
  if (!found.empty() || !fs::is_directory(checkpoints)) return found;
  return strange(checkpoints, is_checkpoint_name);
}

}  // namespace

void RunDirectory::expect_free(const fs::path& path, bool force) {
  // A vacant folder is of a `train` that was killed before it wrote anything.
  if (!fs::exists(path) || is_vacant(path)) return;
  const auto why = not_a_run(path);
  if (!force) {
    throw UsageError(
        fmt::format("{} exists already", path.string()),
        why.empty() ? "`propagator resume` goes on with it; --force replaces "
                      "it; --name makes another"
                    : "--name makes another");
  }
  if (why.empty()) return;
  throw UsageError(fmt::format("--force replaces runs alone, not {}: {}",
                               path.string(), why),
                   "--name makes another run");
}

RunDirectory RunDirectory::create(const fs::path& path, bool force,
                                  const std::string& config) {
  expect_free(path, force);
  create_folders(path);
  RunDirectory run(path);
  run.lock();
  expect_free(path, force);  // now that nobody else can begin here
  run.clear();
  write_file_atomically(run.config(), config);
  create_folders(run.checkpoints());
  return run;
}

// Killed meanwhile, it is the old run without what is gone, or a vacant folder.
void RunDirectory::clear() {
  std::vector<fs::path> doomed;
  for (const auto& entry : fs::directory_iterator(path_)) {
    if (entry.path() != config()) doomed.push_back(entry.path());
  }
  for (const auto& entry : doomed) remove_atomically(entry);
}

RunDirectory RunDirectory::open(const fs::path& path) {
  if (!fs::exists(path / "config.yaml")) {
    throw FileError(
        fmt::format("no run at {}: it has no config.yaml", path.string()),
        "give the folder that `propagator train` printed, such as runs/quick");
  }
  RunDirectory run(path);
  // A link to a disk that is away is there, too.
  if (fs::exists(fs::symlink_status(run.checkpoints())) &&
      !fs::is_directory(run.checkpoints())) {
    throw DataError(
        fmt::format("{} is damaged: {} is not a folder", path.string(),
                    run.checkpoints().string()),
        "put the folder back; without any, `propagator resume` starts the run "
        "again");
  }
  return run;
}

config::Document RunDirectory::read_config() const {
  try {
    return config::Document::from_file(config());
  } catch (const ConfigError& error) {
    throw DataError(
        fmt::format("{} is damaged: {}", path_.string(), error.what()),
        "every checkpoint of the run has a copy of its config.yaml");
  }
}

nlohmann::json RunDirectory::read_result() const {
  if (!fs::exists(result())) return nlohmann::json::object();
  auto parsed = parse_json(read_file(result()));
  if (!parsed.is_object()) throw result_error("it is not JSON");
  return parsed;
}

DataError RunDirectory::result_error(const std::string& what) const {
  return DataError(
      fmt::format("{}: {}", result().string(), what),
      fmt::format("`propagator eval {} --out {} --force` writes it again",
                  path_.string(), result().string()));
}

RunDirectory::~RunDirectory() {
  if (lock_ >= 0) close(lock_);
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

void RunDirectory::lock() {
  const int file = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) {
    throw FileError(fmt::format("cannot open {}: {}", path_.string(),
                                std::strerror(errno)));
  }
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    close(file);
    throw UsageError(
        fmt::format("{} is in use by another process", path_.string()),
        "wait until it ends, or train another run with --name");
  }
  lock_ = file;
}

MetricsFile::MetricsFile(fs::path path, int64_t step) : path_(std::move(path)) {
  std::istringstream lines(fs::exists(path_) ? read_file(path_) : "");
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto parsed = parse_json(line);
    if (!parsed.is_object()) continue;
    const auto at = parsed.value("step", nlohmann::json());
    if (at.is_number() && at.get<double>() <= static_cast<double>(step)) {
      kept += line + "\n";
    }
  }
  write_file_atomically(path_, kept);
}

void MetricsFile::write(const nlohmann::json& line) {
  append_to_file(path_, line.dump() + "\n");
}

}  // namespace propagator::train
