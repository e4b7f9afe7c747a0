#include "propagator/pde/text/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "propagator/pde/text/syntax_error.h"

namespace propagator::pde {
namespace {

// Whatever the locale says.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

class Tokenizer {
 public:
  Tokenizer(const std::string& text, size_t from, size_t to)
      : text_(text), at_(from), end_(std::min(to, text.size())) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    for (;;) {
      while (at_ < end_ && is_space(text_[at_])) ++at_;
      if (at_ >= end_) break;
      tokens.push_back(next());
      at_ = tokens.back().end();
    }
    tokens.push_back({Token::Kind::kEnd, "", end_, 0});
    return tokens;
  }

 private:
  char peek(size_t at) const { return at < end_ ? text_[at] : '\0'; }

  Token next() const {
    const char c = text_[at_];
    if (is_digit(c) || c == '.') return number();
    if (letter_bytes(at_) > 0) return name();
    if (c == '*' && peek(at_ + 1) == '*') {
      return {Token::Kind::kSymbol, "^", at_, 2};
    }
    if (c == '<' || c == '>') {
      const size_t length = peek(at_ + 1) == '=' ? 2 : 1;
      return {Token::Kind::kSymbol, text_.substr(at_, length), at_, length};
    }
    if (std::string_view("+-*/^()[],=:&").find(c) != std::string_view::npos) {
      return {Token::Kind::kSymbol, std::string(1, c), at_, 1};
    }
    strange_character();
  }

  // How many bytes of a letter start here; 0 if none does.
  size_t letter_bytes(size_t at) const {
    if (is_letter(peek(at))) return 1;
    const auto first = static_cast<unsigned char>(peek(at));
    const auto second = static_cast<unsigned char>(peek(at + 1));
    const bool greek =
        (first == 0xcd && second >= 0xb0 && second < 0xc0) ||
        ((first == 0xce || first == 0xcf) && second >= 0x80 && second < 0xc0);
    return greek ? 2 : 0;
  }

  Token name() const {
    size_t end = at_;
    for (;;) {
      const size_t bytes = is_digit(peek(end)) ? 1 : letter_bytes(end);
      if (bytes == 0) break;
      end += bytes;
    }
    auto word = text_.substr(at_, end - at_);
    if (word == "π") word = "pi";
    return {Token::Kind::kName, std::move(word), at_, end - at_};
  }

  Token number() const {
    const auto digits = [this](size_t from) {
      while (is_digit(peek(from)) || peek(from) == '.') ++from;
      return from;
    };
    size_t end = digits(at_);
    if (peek(end) == 'e' || peek(end) == 'E') {
      const size_t sign = peek(end + 1) == '+' || peek(end + 1) == '-' ? 1 : 0;
      // What follows may also be a name, as in 2exp(x): the parser's matter.
      if (is_digit(peek(end + 1 + sign))) {
        end = digits(end + 1 + sign);
      } else if (letter_bytes(end + 1) == 0) {
        const auto mantissa = text_.substr(at_, end - at_);
        fail("malformed number '" + text_.substr(at_, end + 1 - at_) + "'",
             end + 1 - at_,
             fmt::format("write {0}e0, or {0}*e for the number e", mantissa));
      }
    }
    Token token{Token::Kind::kNumber, text_.substr(at_, end - at_), at_,
                end - at_};
    const char* const first = token.text.data();
    const char* const last = first + token.text.size();
    const auto [rest, error] = std::from_chars(first, last, token.number);
    if (error == std::errc::result_out_of_range) {
      fail("the number " + token.text + " is too large or too small",
           token.length, "numbers lie between 2.3e-308 and 1.7e308");
    }
    if (error != std::errc() || rest != last) {
      fail("malformed number '" + token.text + "'", token.length,
           "write numbers as 1, 0.5, .5 or 1e-3");
    }
    return token;
  }

  [[noreturn]] void strange_character() const {
    size_t length = 1;
    while ((static_cast<unsigned char>(peek(at_ + length)) & 0xc0) == 0x80) {
      ++length;
    }
    const auto character = text_.substr(at_, length);
    std::string hint =
        "the text may have names, numbers, + - * / ^ ( ) , and =";
    for (const auto& [sign, instead] :
         {std::pair{"×", "*"},
          {"·", "*"},
          {"−", "-"},
          {"–", "-"},
          {"÷", "/"},
          {"²", "^2"},
          {"³", "^3"},
          {"√", "sqrt(…)"},
          {"≤", "<="},
          {"≥", ">="},
          {"∂", "u_x or d(u, x)"},
          {"∇", "grad(u), div(…) or laplacian(u)"},
          {"{", "("},
          {"}", ")"},
          {";", ","}}) {
      if (character == sign) hint = fmt::format("write {}", instead);
    }
    // Some look just like what should be written.
    if (length > 1) hint += "; formulas are plain ASCII, but for Greek letters";
    if (character == "'") hint = "write a derivative as u_x or d(u, x)";
    fail("unexpected character '" + character + "'", length, hint);
  }

  [[noreturn]] void fail(const std::string& sentence, size_t length,
                         const std::string& hint) const {
    throw SyntaxError(sentence, text_, at_, length, hint);
  }

  const std::string& text_;
  size_t at_, end_;
};

}  // namespace

std::vector<Token> tokenize(const std::string& text, size_t from, size_t to) {
  return Tokenizer(text, from, to).run();
}

}  // namespace propagator::pde
