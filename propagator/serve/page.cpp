#include "propagator/serve/page.h"

#include <fmt/format.h>

#include "propagator/core/base64.h"
#include "propagator/core/sha256.h"
#include "propagator/report/assets.h"
#include "propagator/report/colour.h"

namespace propagator::serve {
namespace {

void fill(std::string& text, std::string_view place, std::string_view value) {
  text.replace(text.find(place), place.size(), value);
}

std::string_view between(std::string_view text, std::string_view begin,
                         std::string_view end) {
  const auto first = text.find(begin) + begin.size();
  return text.substr(first, text.find(end, first) - first);
}

// As a Content-Security-Policy names a text that a browser may take.
std::string source_of(std::string_view text) {
  const auto digits = sha256(text);
  std::string bytes;
  for (size_t n = 0; n < digits.size(); n += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(n, 2), nullptr, 16));
  }
  return fmt::format("'sha256-{}'", base64(bytes));
}

Response made_of(std::string text) {
  fill(text, "{{style}}", report::kPageStyle);
  fill(text, "{{colours}}", report::colour_maps());
  fill(text, "{{panels}}", report::kPanelsScript);
  const auto policy = fmt::format(
      "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; "
      "img-src data:; base-uri 'none'; form-action 'none'; "
      "frame-ancestors 'none'",
      source_of(between(text, "<script>", "</script>")),
      source_of(between(text, "<style>", "</style>")));
  return {.content_type = "text/html; charset=utf-8",
          .fields = {{"Content-Security-Policy", policy},
                     {"Referrer-Policy", "no-referrer"},
                     {"Cache-Control", "no-cache"}},
          .body = std::move(text)};
}

}  // namespace

Response page() {
  static const Response made = made_of(kPageText);
  return made;
}

Response watch_page() {
  static const Response made = made_of(kWatchPageText);
  return made;
}

}  // namespace propagator::serve
