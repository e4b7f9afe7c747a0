#include "propagator/core/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <cstdlib>

namespace propagator::log {

void to_stderr(bool quiet) {
  const char* no_color = std::getenv("NO_COLOR");
  const bool plain =
      (no_color != nullptr && *no_color != '\0') || isatty(STDERR_FILENO) == 0;
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
      plain ? spdlog::color_mode::never : spdlog::color_mode::always);
  sink->set_level(quiet ? spdlog::level::warn : spdlog::level::info);
  auto logger = std::make_shared<spdlog::logger>("propagator", sink);
  logger->set_pattern("%^%L%$ %H:%M:%S %v");
  spdlog::set_default_logger(logger);
}

void also_to_file(const std::filesystem::path& path) {
  auto sink =
      std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string());
  sink->set_pattern("%Y-%m-%d %H:%M:%S %l %v");
  spdlog::default_logger()->sinks().push_back(sink);
  spdlog::flush_on(spdlog::level::info);
}

}  // namespace propagator::log
