#include "propagator/core/json.h"

#include <algorithm>
#include <cmath>

namespace propagator {
namespace {

constexpr int kMostLevels = 64;

// How deep lists and objects nest, if it is JSON; brackets in texts do not
// count.
int levels_of(std::string_view text) {
  int level = 0, most = 0;
  bool quoted = false;
  for (size_t n = 0; n < text.size(); ++n) {
    const char c = text[n];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++n;
    if (quoted) continue;
    if (c == '[' || c == '{') most = std::max(most, ++level);
    if (c == ']' || c == '}') --level;
  }
  return most;
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  using nlohmann::json;
  if (levels_of(text) > kMostLevels) return json(json::value_t::discarded);
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

double number_of(const nlohmann::json& value) {
  return value.is_null() ? std::nan("") : value.get<double>();
}

}  // namespace propagator
