#include "propagator/core/json.h"

#include <cmath>

namespace propagator {

nlohmann::json parse_json(std::string_view text) {
  using nlohmann::json;
  constexpr int kMostLevels = 64;
  bool too_deep = false;
  auto parsed = json::parse(
      text,
      [&](int depth, json::parse_event_t, json&) {
        too_deep = too_deep || depth > kMostLevels;
        return !too_deep;
      },
      /*allow_exceptions=*/false);
  return too_deep ? json(json::value_t::discarded) : parsed;
}

double number_of(const nlohmann::json& value) {
  return value.is_null() ? std::nan("") : value.get<double>();
}

}  // namespace propagator
