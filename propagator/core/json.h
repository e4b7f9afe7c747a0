#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace propagator {

// JSON of a file, which may say anything. Discarded (`is_discarded`) if the
// text is none, or nests deeper than any of ours: copying it, level by level,
// would overflow the stack.
nlohmann::json parse_json(std::string_view text);

// A number; NaN for the null that JSON has in place of one that is not finite.
// nlohmann::json::exception if it is neither.
double number_of(const nlohmann::json& value);

}  // namespace propagator
