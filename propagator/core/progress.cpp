#include "propagator/core/progress.h"

#include <fmt/format.h>

#include <algorithm>

namespace propagator {

Progress::Progress(std::string title, int64_t total, int64_t done)
    : title_(std::move(title)), total_(total), first_(done) {}

Progress::~Progress() { observer().progress_ended(); }

void Progress::update(int64_t done, const std::function<std::string()>& note) {
  observer().progress({title_, first_, done, total_, clock_.seconds(), note});
}

std::string progress_line(const Observer::Step& step) {
  const double rate =
      step.seconds > 0
          ? static_cast<double>(step.done - step.first) / step.seconds
          : 0;
  auto text = fmt::format("{} {}/{}", step.title, step.done, step.total);
  if (rate > 0) {
    const double left = static_cast<double>(step.total - step.done) / rate;
    text += rate >= 1 ? fmt::format("  {:.1f}/s", rate)
                      : fmt::format("  {:.1f} s each", 1 / rate);
    text += fmt::format("  {} left", duration_text(left));
  }
  const auto note = step.note ? step.note() : "";
  return note.empty() ? text : text + "  " + note;
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
