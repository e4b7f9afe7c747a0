#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "propagator/core/config.h"

namespace propagator::train {

// runs/<name>/: config.yaml as resolved, metrics.jsonl, log.txt, checkpoints/,
// calibration.safetensors where a task measures one, result.json, report.html
// with figures/, explain.json. One process at a time
// may train in it.
class RunDirectory {
 public:
  // UsageError if `create` would refuse; asked before long work. Nothing but a
  // run is ever replaced.
  static void expect_free(const std::filesystem::path& path, bool force);
  // A new run, locked. UsageError if it exists and `force` is not given, or if
  // another process trains there.
  static RunDirectory create(const std::filesystem::path& path, bool force,
                             const std::string& config);
  // A run that exists. FileError if there is none, DataError if what is there
  // cannot be one.
  static RunDirectory open(const std::filesystem::path& path);
  // Of a run that another process writes: the paths alone.
  static RunDirectory of_another(const std::filesystem::path& path) {
    return RunDirectory(path);
  }

  ~RunDirectory();
  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path log() const { return path_ / "log.txt"; }
  std::filesystem::path config() const { return path_ / "config.yaml"; }
  std::filesystem::path result() const { return path_ / "result.json"; }
  // DataError if it cannot be read as one.
  config::Document read_config() const;
  // What result.json says; empty if there is none yet.
  nlohmann::json read_result() const;
  // The error of a result.json that says something else than ours do.
  DataError result_error(const std::string& what) const;

  // Takes the run for writing. UsageError if another process holds it.
  void lock();

 private:
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}
  void clear();  // of everything but its configuration

  std::filesystem::path path_;
  int lock_ = -1;
};

// metrics.jsonl: one JSON object a line, each with its `step`, written at once.
class MetricsFile {
 public:
  // Lines after `step` are dropped: they are of a future that was lost in a
  // crash and will be written again.
  MetricsFile(std::filesystem::path path, int64_t step);

  void write(const nlohmann::json& line);

 private:
  std::filesystem::path path_;
};

}  // namespace propagator::train
