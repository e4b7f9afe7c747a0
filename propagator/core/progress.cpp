#include "propagator/core/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace propagator {

Progress::Progress(std::string title, int64_t total, int64_t done)
    : title_(std::move(title)), total_(total), rate_(done) {}

Progress::~Progress() { observer().progress_ended(); }

void Progress::update(int64_t done, const std::function<std::string()>& note) {
  const double now = clock_.seconds();
  observer().progress({title_, done, total_, rate_.at(done, now), now, note});
}

double RecentRate::at(int64_t done, double seconds) {
  if (!warm_) {
    warm_ = done > newer_.done;
    begun_ = seconds;
    newer_ = {done, seconds};
    return 0;
  }
  const double length = std::clamp((seconds - begun_) / 4, 0.5, 60.0);
  if (seconds - newer_.seconds >= length) {
    older_ = std::exchange(newer_, {done, seconds});
    known_ = true;
  }
  if (!known_ || done <= older_.done) return 0;
  return static_cast<double>(done - older_.done) / (seconds - older_.seconds);
}

std::string progress_line(const Observer::Step& step) {
  auto text = fmt::format("{} {}/{}", step.title, step.done, step.total);
  if (const double rate = step.rate; rate > 0) {
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
