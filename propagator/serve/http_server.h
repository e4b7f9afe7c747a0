#pragma once

#include <memory>

#include "propagator/serve/http.h"
#include "propagator/serve/metrics.h"

namespace propagator::serve {

struct HttpLimits {
  int64_t header_bytes = 16 << 10;
  int64_t body_bytes = int64_t{64} << 20;
  // Of all bodies above 1 MiB, of requests and responses, at one time.
  int64_t large_bodies_bytes = int64_t{256} << 20;
  double seconds = 30;  // to send a request whole, and to take its response
  int64_t connections = 512;
};

// HTTP/1.1 over TCP, by Boost.Beast (http_server.cpp) or, where that is
// missing, refused (http_server_missing.cpp). A few threads read requests and
// write responses; what they mean is the handler's.
class HttpServer {
 public:
  // Listens from now on, on port 0 at one that is free. UsageError if it
  // cannot: the port is in use, or the address is not of this machine.
  HttpServer(const std::string& address, uint16_t port,
             const HttpLimits& limits, Handler& handler, Metrics& metrics);
  ~HttpServer();  // as stop()

  uint16_t port() const;
  // Takes no more connections, answers the requests that have begun to arrive,
  // and returns when the last one has its response.
  void stop();

 private:
  class Listener;
  std::unique_ptr<Listener> listener_;
};

// Whether this build has one.
bool has_http();

}  // namespace propagator::serve
