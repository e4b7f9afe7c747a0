#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace propagator {

// Progress of long work on stderr: a bar with rate and time left on a
// terminal, a plain line every few seconds otherwise.
//
//   Progress progress("training", total);
//   for (...) progress.update(done);
class Progress {
 public:
  enum class Style { kBar, kLines, kSilent };

  Progress(std::string title, int64_t total, int64_t done = 0);
  Progress(std::string title, int64_t total, int64_t done, Style style);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `note` is only asked for when a line is shown.
  void update(int64_t done, const std::function<std::string()>& note = {});
  // Takes the bar off the screen so that a log line can be written.
  void clear();

  // The line as it is shown, without the bar's control characters.
  std::string line(int64_t done, const std::string& note, double seconds) const;

  // Silences all progress of this process (`--quiet`).
  static void silence();

 private:
  using Clock = std::chrono::steady_clock;

  std::string title_;
  int64_t total_;
  int64_t first_;
  Style style_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_shown_{};
  bool on_screen_ = false;
};

// "1.2 s", "3 min 05 s", "2 h 10 min"
std::string duration_text(double seconds);

}  // namespace propagator
