#include "propagator/cli/terminal.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "propagator/core/plain_text.h"
#include "propagator/core/progress.h"
#include "propagator/core/ranks.h"

namespace propagator::cli {
namespace {

constexpr double kBarEvery = 0.1, kLineEvery = 10;  // s

bool is_plain() {
  const char* no_color = std::getenv("NO_COLOR");
  return (no_color != nullptr && *no_color != '\0') ||
         isatty(STDERR_FILENO) == 0;
}

size_t terminal_width() {
  winsize size{};
  const bool known =
      ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  return known ? size.ws_col : 80;
}

std::string bar_of(const Observer::Step& step) {
  constexpr int kBarWidth = 20;
  const double share =
      std::clamp(static_cast<double>(step.done) /
                     static_cast<double>(std::max<int64_t>(step.total, 1)),
                 0.0, 1.0);
  const int filled = static_cast<int>(share * kBarWidth);
  auto text =
      fmt::format("[{}{}] {}", std::string(filled, '='),
                  std::string(kBarWidth - filled, ' '), progress_line(step));
  text.resize(std::min(text.size(), terminal_width() - 1));
  return text;
}

}  // namespace

Terminal::Terminal(bool quiet)
    : quiet_(quiet || !ranks().is_first()),
      is_terminal_(isatty(STDERR_FILENO) != 0) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
      is_plain() ? spdlog::color_mode::never : spdlog::color_mode::always);
  logger_ = std::make_shared<spdlog::logger>("propagator", sink);
  logger_->set_level(!ranks().is_first() ? spdlog::level::off
                     : quiet             ? spdlog::level::warn
                                         : spdlog::level::info);
  logger_->set_pattern("%^%L%$ %H:%M:%S %v");
}

Terminal::~Terminal() { clear(); }

void Terminal::log(Level level, const std::string& line) {
  clear();
  logger_->log(
      level == Level::kWarning ? spdlog::level::warn : spdlog::level::info,
      plain_text(line, /*kept=*/"\n\t"));
}

void Terminal::progress(const Step& step) {
  if (quiet_) return;
  const double now = clock_.seconds();
  const double since = std::min(step.seconds, now - shown_at_);
  if (since < (is_terminal_ ? kBarEvery : kLineEvery)) return;
  shown_at_ = now;
  if (!is_terminal_) {
    fmt::print(stderr, "{}\n", progress_line(step));
    return;
  }
  fmt::print(stderr, "\r\x1b[K{}", bar_of(step));
  std::fflush(stderr);
  bar_on_screen_ = true;
}

void Terminal::progress_ended() { clear(); }

void Terminal::clear() {
  if (!bar_on_screen_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  bar_on_screen_ = false;
}

void Terminal::training_began() { signals_ = std::make_unique<StopSignals>(); }
void Terminal::training_ended() { signals_.reset(); }
bool Terminal::stop_requested() { return StopSignals::requested() != 0; }

}  // namespace propagator::cli
