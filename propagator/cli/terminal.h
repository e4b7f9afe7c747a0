#pragma once

#include <memory>

#include "propagator/cli/stop_signals.h"
#include "propagator/core/observer.h"
#include "propagator/core/stopwatch.h"

namespace spdlog {
class logger;
}

namespace propagator::cli {

// Shows work on stderr: log lines, coloured on a terminal unless NO_COLOR is
// set, and progress, a bar with rate and time left on a terminal, a plain line
// every few seconds otherwise. While something trains, SIGINT and SIGTERM ask
// it to stop. Of several ranks the first one alone shows anything.
class Terminal : public Observer {
 public:
  explicit Terminal(bool quiet);
  ~Terminal() override;

  void log(Level level, const std::string& line) override;
  void progress(const Step& step) override;
  void progress_ended() override;
  void training_began() override;
  void training_ended() override;
  bool stop_requested() override;

 private:
  void clear();  // takes the bar off the screen

  bool quiet_, is_terminal_;
  bool bar_on_screen_ = false;
  double shown_at_ = 0;
  Stopwatch clock_;
  std::shared_ptr<spdlog::logger> logger_;
  std::unique_ptr<StopSignals> signals_;
};

}  // namespace propagator::cli
