#include "propagator/core/plain_text.h"

namespace propagator {
namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";  // U+FFFD

// How many bytes the character has that `text` begins with; 0 if it is a
// control character or not UTF-8.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t at) {
    return static_cast<unsigned char>(text[at]);
  };
  const auto first = byte(0);
  if (first < 0x80) return first < 0x20 || first == 0x7f ? 0 : 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  char32_t code = first & (0xff >> (length + 1));
  for (size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(at) & 0x3f);
  }
  // Below these a character has a shorter form, or is a control character.
  constexpr char32_t kSmallest[] = {0, 0, 0xa0, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kSmallest[length] || code > 0x10ffff || surrogate ? 0 : length;
}

}  // namespace

std::string plain_text(std::string_view text, std::string_view kept) {
  std::string plain;
  while (!text.empty()) {
    const bool stays = kept.find(text.front()) != std::string_view::npos;
    const size_t bytes = stays ? 1 : character_bytes(text);
    plain += bytes > 0 ? text.substr(0, bytes) : kReplacement;
    text.remove_prefix(bytes > 0 ? bytes : 1);
  }
  return plain;
}

bool is_plain_text(std::string_view text, std::string_view kept) {
  return plain_text(text, kept) == text;
}

}  // namespace propagator
