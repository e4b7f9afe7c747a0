#include "propagator/serve/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "propagator/core/plain_text.h"

namespace propagator::serve {
namespace {

constexpr size_t kShortestKey = 16;
constexpr std::string_view kBearer = "Bearer ";

bool is_address(const std::string& text) {
  in6_addr parsed{};
  return inet_pton(AF_INET, text.c_str(), &parsed) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &parsed) == 1;
}

bool is_loopback(const std::string& address) {
  return address == "::1" || address.starts_with("127.");
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

// In a time that does not tell how much of it is right.
bool same_key(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (size_t n = 0; n < a.size(); ++n) {
    different |= static_cast<unsigned char>(a[n]) ^
                 static_cast<unsigned char>(b[n % b.size()]);
  }
  return different == 0;
}

bool is_good_key(std::string_view key) {
  return key.size() >= kShortestKey &&
         std::ranges::all_of(
             key, [](unsigned char c) { return std::isgraph(c) != 0; });
}

}  // namespace

std::string host_of(std::string_view authority) {
  std::string_view host = authority, port;
  if (authority.starts_with('[')) {
    const auto end = authority.find(']');
    if (end == std::string_view::npos) return "";
    host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
    if (!is_address(std::string(host))) return "";
  } else {
    host = authority.substr(0, authority.find(':'));
    port = authority.substr(host.size());
    if (!is_name(host)) return "";
  }
  const bool good_port =
      port.empty() || (port.size() <= 6 && port[0] == ':' &&
                       std::ranges::all_of(port.substr(1), [](unsigned char c) {
                         return std::isdigit(c) != 0;
                       }));
  return good_port ? lower(std::string(host)) : "";
}

Access::Access(AccessOptions options) : options_(std::move(options)) {
  if (options_.address == "localhost") options_.address = "127.0.0.1";
  if (!is_address(options_.address)) {
    throw UsageError(
        fmt::format("[serve] expected an address in numbers, got '{}'",
                    options_.address),
        "127.0.0.1 is this machine alone, 0.0.0.0 every network that it is in");
  }
  if (!options_.key.empty() && !is_good_key(options_.key)) {
    throw UsageError(
        fmt::format("[serve] expected an API key of {} or more visible "
                    "characters, got one of {}",
                    kShortestKey, options_.key.size()),
        "`openssl rand -hex 24` makes a good one");
  }
  if (!is_loopback(options_.address) && options_.key.empty()) {
    throw UsageError(
        fmt::format("[serve] {} can be reached by others, and there is no API "
                    "key",
                    options_.address),
        "give one with --key-file, or listen on 127.0.0.1");
  }
  for (auto& host : options_.hosts) {
    if (!is_name(host)) {
      throw UsageError(
          fmt::format("[serve] expected the name of a host, got '{}'", host),
          "without http:// and port, such as surrogate.lab.example");
    }
    host = lower(host);
  }
  if (options_.origin.empty()) return;
  const auto at = options_.origin.find("://");
  if (at == std::string::npos ||
      host_of(options_.origin.substr(at + 3)).empty()) {
    throw UsageError(
        fmt::format("[serve] expected the origin of a page, got '{}'",
                    options_.origin),
        "such as https://lab.example:8080, without a path");
  }
}

void Access::check(const RequestHead& head, bool needs_key) const {
  const auto host = head.field("Host");
  if (!host || !is_our_host(head, host_of(*host))) {
    throw Refused(421,
                  fmt::format("'{}' is no name of this server",
                              plain_text(host.value_or(""))),
                  "`propagator serve --host NAME` gives it one");
  }
  const auto origin = head.field("Origin");
  if (origin && *origin != "http://" + *host && !is_permitted(*origin)) {
    throw Refused(403,
                  fmt::format("pages of '{}' may not ask", plain_text(*origin)),
                  "`propagator serve --cors ORIGIN` lets those of one origin");
  }
  if (!needs_key || options_.key.empty()) return;
  const auto given = head.field("Authorization").value_or("");
  const bool right =
      given.starts_with(kBearer) &&
      same_key(std::string_view(given).substr(kBearer.size()), options_.key);
  if (right) return;
  throw Refused(401,
                given.empty() ? "expected an API key, got none"
                              : "expected another API key",
                "send the header Authorization: Bearer KEY",
                {{"WWW-Authenticate", "Bearer"}});
}

void Access::add_permission(const RequestHead& head, Response& response) const {
  if (options_.origin.empty()) return;
  response.fields.emplace_back("Vary", "Origin");
  if (!is_permitted(head.field("Origin").value_or(""))) return;
  response.fields.emplace_back("Access-Control-Allow-Origin", options_.origin);
  response.fields.emplace_back("Access-Control-Expose-Headers",
                               "Inference-Header-Content-Length, Retry-After");
}

Response Access::preflight(const RequestHead& head) const {
  if (!is_permitted(head.field("Origin").value_or(""))) {
    throw Refused(405, "expected GET or POST, got OPTIONS", "",
                  {{"Allow", "GET, POST"}});
  }
  return {.status = 204,
          .fields = {{"Access-Control-Allow-Methods", "GET, POST"},
                     {"Access-Control-Allow-Headers",
                      "Authorization, Content-Type, "
                      "Inference-Header-Content-Length"},
                     {"Access-Control-Max-Age", "600"}}};
}

// An address that the client has reached is ours: it was not resolved from a
// name that someone else gave it.
bool Access::is_our_host(const RequestHead& head,
                         const std::string& host) const {
  if (host.empty()) return false;
  return host == "localhost" || host == options_.address ||
         host == head.local_address ||
         std::ranges::find(options_.hosts, host) != options_.hosts.end();
}

bool Access::is_permitted(const std::string& origin) const {
  return !options_.origin.empty() && origin == options_.origin;
}

}  // namespace propagator::serve
