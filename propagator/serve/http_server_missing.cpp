#include "propagator/serve/http_server.h"

namespace propagator::serve {

class HttpServer::Listener {};

HttpServer::HttpServer(const std::string&, uint16_t, const HttpLimits&,
                       Handler&, Metrics&) {
  throw UsageError("[serve] this build has no server",
                   "install Boost (Debian: libboost-dev) and build again");
}
HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return 0; }
void HttpServer::stop() {}

bool has_http() { return false; }

}  // namespace propagator::serve
