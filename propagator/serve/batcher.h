#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <thread>

#include "propagator/core/stopwatch.h"
#include "propagator/serve/metrics.h"
#include "propagator/serve/served_model.h"

namespace propagator::serve {

// Computes requests, one thing at a time, so that each has all CPU threads of
// its model. What comes when nothing else is computed, to a model of one
// thread, is computed by the thread that brings it: to wake another would take
// a good part of a small model's time. The rest waits for a thread of the
// batcher's own. Requests of a model that wait at the same time, and whose
// inputs fit together, are computed at once; if that fails, each by itself, so
// that nobody gets the error of another.
class Batcher {
 public:
  struct Options {
    int64_t batch = 16;    // requests at once; with 1 an answer has the bits
                           // that it has by itself
    int64_t queue = 64;    // requests that may wait
    double patience = 30;  // s that a request waits at most
  };
  Batcher(const Options& options, Metrics& metrics);
  // Computes what was accepted.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Called once, by `submit` or from the batcher's thread; `error` if there is
  // no answer.
  using Done = std::function<void(Answer answer, std::exception_ptr error)>;
  struct Job {
    std::shared_ptr<const ServedModel> model;
    NamedTensors inputs;
    bool guard = false;
    Done done;
  };
  // Refused with 503 and a time after which to come again, if too many wait.
  void submit(Job job);

 private:
  struct Waiting {
    Job job;
    std::string layout;  // that of others must be the same; empty: of none
    Stopwatch clock;
  };
  // Whether this one is to be computed at once; else it waits from now on.
  bool begins(Waiting& one);
  void work();
  // The first that waits, and those that may be computed with it.
  std::vector<Waiting> take();
  void compute(std::vector<Waiting> together);
  void compute_joined(const std::vector<Waiting>& together);

  const Options options_;
  Metrics& metrics_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> queue_;
  bool busy_ = false, ending_ = false;
  double seconds_each_ = 0.01;  // of late
  std::thread thread_;
};

}  // namespace propagator::serve
