#pragma once

#include <atomic>
#include <thread>

#include "propagator/serve/http.h"

namespace propagator::serve {

// Says of a problem in the text of a request what `propagator check` says of
// one in a file; the text is read as data, and may name no files. One at a
// time, in a thread of its own: others are sent away meanwhile.
class ProblemCheck {
 public:
  static constexpr size_t kMostBytes = 16 << 10;  // of a text

  ProblemCheck() = default;
  ~ProblemCheck();
  ProblemCheck(const ProblemCheck&) = delete;
  ProblemCheck& operator=(const ProblemCheck&) = delete;

  // Refused with 413 if the length that a request announces is too large.
  static void expect_short(const RequestHead& head);

  // Calls `reply` once, later. Refused if another one is checked now, or if the
  // text is too long.
  void submit(std::string text, Handler::Reply reply);

 private:
  std::atomic<bool> busy_ = false;
  std::thread thread_;
};

}  // namespace propagator::serve
