#pragma once

#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>

#include "propagator/core/observer.h"
#include "propagator/serve/access.h"
#include "propagator/serve/http_server.h"

namespace propagator::serve {

// Answers what the page of a training asks: `/` is the page, `/progress` how
// far the training has come, `/metrics.jsonl?from=BYTE` whole lines of what it
// has written into its folder, from a byte on.
class WatchHandler : public Handler {
 public:
  explicit WatchHandler(std::filesystem::path folder);

  void admit(const RequestHead& head) const override;
  void answer(Request request, Reply reply) override;

  void note(const Observer::Step& step);
  void note(const std::string& line);

 private:
  Response response_to_path(const std::string& target) const;
  Response progress() const;
  Response lines_from(const std::string& query) const;

  const std::filesystem::path folder_;
  const Access access_;
  mutable std::mutex mutex_;
  nlohmann::json step_;  // null before the first
  std::string line_;     // of the log
};

// A training on a page, for a browser of this machine: its curves, its rate and
// the time left. It stands between the training and the observer that this one
// would have, and ends with its own life.
//
//   serve::Watch watch(folder, observer);
//   run::train(experiment, folder, false, watch);
class Watch : public Observer {
 public:
  // Listens on 127.0.0.1. UsageError if it cannot.
  Watch(std::filesystem::path folder, Observer& outer, uint16_t port = 0);

  std::string url() const;  // "http://127.0.0.1:41234"

  void log(Level level, const std::string& line) override;
  void progress(const Step& step) override;
  void progress_ended() override { outer_.progress_ended(); }
  void training_began() override { outer_.training_began(); }
  void training_ended() override { outer_.training_ended(); }
  bool stop_requested() override { return outer_.stop_requested(); }

 private:
  Observer& outer_;
  WatchHandler handler_;
  Metrics metrics_;
  HttpServer server_;
};

}  // namespace propagator::serve
