#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "propagator/core/observer.h"
#include "propagator/core/stopwatch.h"

namespace propagator {

// How many a second of late. What the first one takes is warm-up and does not
// count; later on, what is longer ago than a quarter of the time (half a second
// at least, a minute at most) is forgotten.
class RecentRate {
 public:
  explicit RecentRate(int64_t done) : newer_{done, 0} {}
  // So many are done by now; 0 while the rate is not known.
  double at(int64_t done, double seconds);

 private:
  struct Mark {
    int64_t done = 0;
    double seconds = 0;
  };
  Mark older_, newer_;
  double begun_ = 0;  // after the warm-up
  bool warm_ = false, known_ = false;
};

// Tells the observer of this thread's work how far a part of it has come.
//
//   Progress progress("training", total);
//   for (...) progress.update(done);
class Progress {
 public:
  Progress(std::string title, int64_t total, int64_t done = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `note` is only asked for when somebody shows it.
  void update(int64_t done, const std::function<std::string()>& note = {});

 private:
  std::string title_;
  int64_t total_;
  RecentRate rate_;
  Stopwatch clock_;
};

// A step as a line: "training 60/100  2.0/s  20.0 s left  loss 0.1".
std::string progress_line(const Observer::Step& step);

// "1.2 s", "3 min 05 s", "2 h 10 min"
std::string duration_text(double seconds);

}  // namespace propagator
