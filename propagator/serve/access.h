#pragma once

#include "propagator/serve/http.h"

namespace propagator::serve {

struct AccessOptions {
  // Where to listen: an address in numbers, or localhost.
  std::string address = "127.0.0.1";
  // What each request must bring as `Authorization: Bearer KEY`; empty:
  // nothing.
  std::string key = {};
  // Names by which the server is called, besides its addresses and localhost.
  std::vector<std::string> hosts = {};
  // The page ("https://lab.example") whose scripts may ask and read the
  // answers.
  std::string origin = {};
};

// Who may ask. A page in a browser of this machine can reach a server on the
// loopback address too: with a name of its own that resolves to 127.0.0.1,
// which the header Host gives away, or as another origin, which Origin does.
class Access {
 public:
  // UsageError for an address beyond this machine without a key, a key that is
  // too short, a name or an origin that is none.
  explicit Access(AccessOptions options);

  const std::string& address() const { return options_.address; }

  // Throws Refused: 401 for the key, 403 for the origin, 421 for the host.
  void check(const RequestHead& head, bool needs_key) const;

  // What lets a script of the permitted page read the response.
  void add_permission(const RequestHead& head, Response& response) const;
  // The answer to a browser that asks whether such a script may ask.
  Response preflight(const RequestHead& head) const;

 private:
  bool is_our_host(const RequestHead& head, const std::string& host) const;
  bool is_permitted(const std::string& origin) const;

  AccessOptions options_;
};

// The host in a value such as "localhost:8000" or "[::1]:8000"; empty if it is
// no such value.
std::string host_of(std::string_view authority);

}  // namespace propagator::serve
