#include "propagator/core/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace propagator {
namespace {

bool g_silent = false;

Progress::Style default_style() {
  if (g_silent) return Progress::Style::kSilent;
  return isatty(STDERR_FILENO) != 0 ? Progress::Style::kBar
                                    : Progress::Style::kLines;
}

size_t terminal_width() {
  winsize size{};
  const bool known =
      ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  return known ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::string title, int64_t total, int64_t done)
    : Progress(std::move(title), total, done, default_style()) {}

Progress::Progress(std::string title, int64_t total, int64_t done, Style style)
    : title_(std::move(title)), total_(total), first_(done), style_(style) {}

Progress::~Progress() { clear(); }

void Progress::silence() { g_silent = true; }

std::string Progress::line(int64_t done, const std::string& note,
                           double seconds) const {
  const double rate =
      seconds > 0 ? static_cast<double>(done - first_) / seconds : 0;
  std::string text = fmt::format("{} {}/{}", title_, done, total_);
  if (rate > 0) {
    const double left = static_cast<double>(total_ - done) / rate;
    text += rate >= 1 ? fmt::format("  {:.1f}/s", rate)
                      : fmt::format("  {:.1f} s each", 1 / rate);
    text += fmt::format("  {} left", duration_text(left));
  }
  if (!note.empty()) text += "  " + note;
  return text;
}

void Progress::update(int64_t done, const std::function<std::string()>& note) {
  if (style_ == Style::kSilent) return;
  const auto now = Clock::now();
  const double interval = style_ == Style::kBar ? 0.1 : 10.0;
  const double since_shown =
      std::chrono::duration<double>(now - std::max(last_shown_, start_))
          .count();
  if (since_shown < interval) return;
  last_shown_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string text = line(done, note ? note() : "", seconds);
  if (style_ == Style::kLines) {
    fmt::print(stderr, "{}\n", text);
    return;
  }
  constexpr int kBarWidth = 20;
  const double share =
      std::clamp(static_cast<double>(done) /
                     static_cast<double>(std::max<int64_t>(total_, 1)),
                 0.0, 1.0);
  const int filled = static_cast<int>(share * kBarWidth);
  text = fmt::format("[{}{}] {}", std::string(filled, '='),
                     std::string(kBarWidth - filled, ' '), text);
  text.resize(std::min(text.size(), terminal_width() - 1));
  fmt::print(stderr, "\r\x1b[K{}", text);
  std::fflush(stderr);
  on_screen_ = true;
}

void Progress::clear() {
  if (!on_screen_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  on_screen_ = false;
}

std::string duration_text(double seconds) {
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = std::max<int64_t>(60, static_cast<int64_t>(seconds));
  if (whole < 3600) {
    return fmt::format("{} min {:02d} s", whole / 60, whole % 60);
  }
  return fmt::format("{} h {:02d} min", whole / 3600, whole / 60 % 60);
}

}  // namespace propagator
