#pragma once

#include "propagator/serve/http_server.h"
#include "propagator/serve/service.h"

namespace propagator::serve {

struct ServerOptions {
  // Folders of runs, or NAME=FOLDER.
  std::vector<std::string> runs;
  // Where to compute, and in which precision: of this session alone.
  run::Change change = {};
  uint16_t port = 8000;  // 0: one that is free
  Service::Options service = {};
  HttpLimits limits = {};
};

// Runs over HTTP. They are read when it is made; it answers from then on until
// `stop`, which ends it when all requests that have come are answered. Nothing
// is written, and no signal is handled.
//
//   serve::Server server({.runs = {"runs/quick"}});
class Server {
 public:
  // UsageError for wrong options, others as of run::open.
  explicit Server(const ServerOptions& options);

  uint16_t port() const { return http_.port(); }
  // "http://127.0.0.1:8000"
  std::string url() const;
  void stop() { http_.stop(); }
  int64_t responses() { return service_.metrics().responses(); }

 private:
  Service service_;
  HttpServer http_;
};

}  // namespace propagator::serve
