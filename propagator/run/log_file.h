#pragma once

#include <filesystem>
#include <fstream>

#include "propagator/core/observer.h"

namespace propagator::run {

// A run's log.txt: while it lives, the lines that go to this thread's observer
// are also appended there, with the time. Everything goes on to that observer.
class LogFile : public Observer {
 public:
  explicit LogFile(const std::filesystem::path& path);

  void log(Level level, const std::string& line) override;
  void progress(const Step& step) override { outer_.progress(step); }
  void progress_ended() override { outer_.progress_ended(); }
  void training_began() override { outer_.training_began(); }
  void training_ended() override { outer_.training_ended(); }
  bool stop_requested() override { return outer_.stop_requested(); }

 private:
  Observer& outer_;
  ObserverScope scope_;
  std::ofstream file_;
};

}  // namespace propagator::run
