#pragma once

#include <string>
#include <vector>

namespace propagator::pde {

// A piece of PDE text and where it stands, in bytes.
struct Token {
  enum class Kind { kNumber, kName, kSymbol, kEnd };

  Kind kind = Kind::kEnd;
  std::string text;  // "^" also for "**", "pi" also for "π"
  size_t at = 0, length = 0;
  double number = 0;

  size_t end() const { return at + length; }
  bool is(const char* symbol) const {
    return kind == Kind::kSymbol && text == symbol;
  }
  bool is_name(const char* name) const {
    return kind == Kind::kName && text == name;
  }
};

// The tokens of text[from, to), the last one an end. Names are letters (also
// Greek ones), digits and underscores; symbols are + - * / ^ & ( ) [ ] , = : <
// <= > and >= SyntaxError for any other character and for a malformed number.
std::vector<Token> tokenize(const std::string& text, size_t from = 0,
                            size_t to = std::string::npos);

}  // namespace propagator::pde
