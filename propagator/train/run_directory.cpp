#include "propagator/train/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "propagator/core/error.h"
#include "propagator/core/files.h"

namespace propagator::train {

void RunDirectory::expect_free(const fs::path& path, bool force) {
  if (!fs::exists(path)) return;
  const bool ours = fs::exists(path / "config.yaml") || fs::is_empty(path);
  if (force && ours) return;
  throw UsageError(
      fmt::format("{} exists already", path.string()),
      ours ? "`propagator resume` goes on with it; --force replaces it; "
             "--name makes another"
           : "it does not look like a run, so --force will not replace it");
}

RunDirectory RunDirectory::create(const fs::path& path, bool force,
                                  const std::string& config) {
  expect_free(path, force);
  if (fs::exists(path)) {
    RunDirectory old(path);
    old.lock();  // never under a running process
    fs::remove_all(path);
  }
  std::error_code error;
  fs::create_directories(path / "checkpoints", error);
  if (error) {
    throw FileError(
        fmt::format("cannot make {}: {}", path.string(), error.message()));
  }
  RunDirectory run(path);
  run.lock();
  write_file_atomically(run.config(), config);
  return run;
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
  auto parsed = nlohmann::json::parse(read_file(result()), nullptr,
                                      /*allow_exceptions=*/false);
  if (!parsed.is_object()) {
    throw DataError(
        fmt::format("{} is not JSON", result().string()),
        fmt::format("`propagator eval {} --out {} --force` writes it again",
                    path_.string(), result().string()));
  }
  return parsed;
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
        fmt::format("{} is in use by another process", path_.string()));
  }
  lock_ = file;
}

MetricsFile::MetricsFile(fs::path path, int64_t step) : path_(std::move(path)) {
  if (!fs::exists(path_)) return;
  std::istringstream lines(read_file(path_));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto parsed =
        nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object() || !parsed.contains("step")) continue;
    const auto& at = parsed.at("step");
    if (at.is_number_integer() && at <= step) kept += line + "\n";
  }
  write_file_atomically(path_, kept);
}

void MetricsFile::write(const nlohmann::json& line) {
  std::ofstream out(path_, std::ios::app);
  out << line.dump() << '\n';
  out.flush();
  if (!out) throw FileError("cannot write " + path_.string());
}

}  // namespace propagator::train
