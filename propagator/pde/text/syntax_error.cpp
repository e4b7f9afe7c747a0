#include "propagator/pde/text/syntax_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace propagator::pde {
namespace {

size_t characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

// The line at `position` with a caret and tildes under what is meant there.
std::string picture(const std::string& text, size_t position, size_t length) {
  position = std::min(position, text.size());
  const size_t before =
      position == 0 ? std::string::npos : text.rfind('\n', position - 1);
  const size_t start = before == std::string::npos ? 0 : before + 1;
  const size_t end = std::min(text.find('\n', position), text.size());
  std::string line = text.substr(start, end - start);
  std::ranges::replace(line, '\t', ' ');  // one column, as we count it
  const auto view = std::string_view(text);
  const size_t column = characters(view.substr(start, position - start));
  const size_t width = std::max<size_t>(
      1, characters(view.substr(position, std::min(length, end - position))));
  return fmt::format("  {}\n  {}^{}", line, std::string(column, ' '),
                     std::string(width - 1, '~'));
}

}  // namespace

SyntaxError::SyntaxError(const std::string& sentence, std::string text,
                         size_t position, size_t length, std::string hint)
    : UsageError(sentence + "\n" + picture(text, position, length),
                 std::move(hint)),
      sentence_(sentence),
      text_(std::move(text)),
      position_(position),
      length_(length) {}

}  // namespace propagator::pde
