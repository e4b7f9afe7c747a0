#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace propagator {

// What the program returns to the shell.
enum class ExitCode : int {
  kOk = 0,
  kFailure = 1,      // the world failed us: disk, permissions, a bug
  kUsage = 2,        // command line or configuration
  kData = 3,         // a file's content or format
  kNumerical = 4,    // NaN, divergence, an unstable time step
  kDevice = 5,       // memory or device
  kOutsideBand = 6,  // a result outside its band, or an honest run that leaks
  kStopped = 75,     // stopped on request, with a good checkpoint
};

// An error may carry a hint: what the user can do about it.
class Hinted {
 public:
  explicit Hinted(std::string hint) : hint_(std::move(hint)) {}
  virtual ~Hinted() = default;
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

// The caller's mistake: bad argument, bad configuration.
class UsageError : public std::invalid_argument, public Hinted {
 public:
  explicit UsageError(const std::string& what, std::string hint = "")
      : std::invalid_argument(what), Hinted(std::move(hint)) {}
};

// A configuration value that is wrong in itself or beside another one.
// `key` is its dotted path, so that the reader can add file, line and column.
class ConfigError : public UsageError {
 public:
  ConfigError(std::string key, const std::string& what, std::string hint = "",
              int64_t item = -1)
      : UsageError(what, std::move(hint)), key_(std::move(key)), item_(item) {}
  const std::string& key() const { return key_; }
  int64_t item() const { return item_; }  // of a list, or -1

 private:
  std::string key_;
  int64_t item_;
};

// The world's failures, each with its exit code.
class RuntimeError : public std::runtime_error, public Hinted {
 public:
  RuntimeError(ExitCode code, const std::string& what, std::string hint)
      : std::runtime_error(what), Hinted(std::move(hint)), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// A file could not be read or written.
class FileError : public RuntimeError {
 public:
  explicit FileError(const std::string& what, std::string hint = "")
      : RuntimeError(ExitCode::kFailure, what, std::move(hint)) {}
};

// A file was read, but what it says is wrong.
class DataError : public RuntimeError {
 public:
  explicit DataError(const std::string& what, std::string hint = "")
      : RuntimeError(ExitCode::kData, what, std::move(hint)) {}
};

class NumericalError : public RuntimeError {
 public:
  explicit NumericalError(const std::string& what, std::string hint = "")
      : RuntimeError(ExitCode::kNumerical, what, std::move(hint)) {}
};

class DeviceError : public RuntimeError {
 public:
  explicit DeviceError(const std::string& what, std::string hint = "")
      : RuntimeError(ExitCode::kDevice, what, std::move(hint)) {}
};

// The exit code and the hint that belong to any exception.
ExitCode exit_code(const std::exception& error);
std::string hint(const std::exception& error);

}  // namespace propagator
