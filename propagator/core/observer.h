#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace propagator {

// What long work tells whoever called for it, and how it is asked to stop. The
// library itself prints nothing, writes no log and handles no signal: a front
// end derives from this class what suits it and hands it in with an
// ObserverScope. Everything is called in the thread that does the work.
class Observer {
 public:
  virtual ~Observer() = default;

  enum class Level { kInfo, kWarning };
  virtual void log(Level, const std::string& /*line*/) {}

  // How far some work has come. Many are told; `note` has more to say of it
  // and is to be called only where it is shown.
  struct Step {
    const std::string& title;
    int64_t done, total;
    double rate;     // of late, a second; 0 while it is not known
    double seconds;  // since it began
    const std::function<std::string()>& note;
  };
  virtual void progress(const Step&) {}
  virtual void progress_ended() {}

  // A training begins and ends; between the two it asks after each step
  // whether to stop, which leaves a good checkpoint.
  virtual void training_began() {}
  virtual void training_ended() {}
  virtual bool stop_requested() { return false; }
};

// The observer of the work that this thread does now; one that ignores
// everything if nobody has set another.
Observer& observer();

// Makes an observer that of this thread while the scope lives.
class ObserverScope {
 public:
  explicit ObserverScope(Observer& observer);
  ~ObserverScope();
  ObserverScope(const ObserverScope&) = delete;
  ObserverScope& operator=(const ObserverScope&) = delete;

 private:
  Observer* outer_;
};

}  // namespace propagator
