#include "propagator/serve/http.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "propagator/core/plain_text.h"

namespace propagator::serve {
namespace {

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::ranges::equal(a, b, {}, lower, lower);
}

int status_of(const std::exception& error) {
  if (const auto* refused = dynamic_cast<const Refused*>(&error)) {
    return refused->status();
  }
  switch (exit_code(error)) {
    case ExitCode::kUsage:
    case ExitCode::kData:
      return 400;
    case ExitCode::kNumerical:
      return 422;
    default:
      return 500;
  }
}

// libtorch appends a C++ stack to its messages; the first line says it all.
std::string message_of(const std::exception& error) {
  std::string text = error.what();
  if (dynamic_cast<const Hinted*>(&error) == nullptr) {
    text = text.substr(0, text.find('\n'));
  }
  const auto advice = hint(error);
  return advice.empty() ? text : text + "; hint: " + advice;
}

}  // namespace

std::optional<std::string> RequestHead::field(std::string_view name) const {
  std::optional<std::string> found;
  for (const auto& [other, value] : fields) {
    if (!same_name(name, other)) continue;
    if (found) {
      throw Refused(400,
                    "expected the header " + other + " once, got it twice");
    }
    found = value;
  }
  return found;
}

Response response_to(const std::exception& error) {
  Response response{.status = status_of(error)};
  if (const auto* refused = dynamic_cast<const Refused*>(&error)) {
    response.fields = refused->fields();
  }
  const nlohmann::json body{
      {"error", plain_text(message_of(error), /*kept=*/"\n\t")}};
  response.body = body.dump();
  return response;
}

}  // namespace propagator::serve
