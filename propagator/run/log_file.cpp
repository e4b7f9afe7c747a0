#include "propagator/run/log_file.h"

#include <fmt/chrono.h>

#include <ctime>

namespace propagator::run {

LogFile::LogFile(const std::filesystem::path& path)
    : outer_(observer()), scope_(*this), file_(path, std::ios::app) {}

void LogFile::log(Level level, const std::string& line) {
  std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  // Flushed line by line: a crash is when the log is read.
  file_ << fmt::format("{:%Y-%m-%d %H:%M:%S} {} {}", local,
                       level == Level::kWarning ? "warning" : "info", line)
        << std::endl;
  outer_.log(level, line);
}

}  // namespace propagator::run
