#include "propagator/data/tokenizer.h"

#include <fmt/format.h>

#include <sstream>

#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"

namespace propagator::data {
namespace {

constexpr size_t kNamed = 20;  // tokens that a hint names

[[noreturn]] void throw_unknown(const std::string& what,
                                const std::string& known) {
  throw UsageError(
      fmt::format("[tokens] '{}' is no token of this model", plain_text(what)),
      "it knows " + known);
}

int64_t text_index(int64_t token, size_t count) {
  const int64_t at = token - kFirstOfText;
  if (token >= 0 && at < static_cast<int64_t>(count)) return at;
  throw UsageError(fmt::format("[tokens] expected tokens from 0 to {}, got {}",
                               kFirstOfText + static_cast<int64_t>(count) - 1,
                               token));
}

// The character that `text` begins with, which is taken off; nothing if it is
// not UTF-8.
bool take_character(std::string_view& text, char32_t& code) {
  const auto byte = [&](size_t at) {
    return static_cast<unsigned char>(text[at]);
  };
  const auto first = byte(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || text.size() < length) return false;
  code = length == 1 ? first : first & (0xffu >> (length + 1));
  for (size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return false;
    code = code << 6 | (byte(at) & 0x3f);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kSmallest[length] || code > 0x10ffff || surrogate) return false;
  text.remove_prefix(length);
  return true;
}

}  // namespace

std::vector<char32_t> characters_of(std::string_view text) {
  std::vector<char32_t> characters;
  const size_t all = text.size();
  for (char32_t code = 0; !text.empty();) {
    if (!take_character(text, code)) {
      throw DataError(
          fmt::format("[tokens] byte {} is not UTF-8", all - text.size()),
          "tokens of byte pairs take any bytes: data.tokens=bytepair");
    }
    characters.push_back(code);
  }
  return characters;
}

std::string utf8(char32_t c) {
  const auto last = [&](int shift) {
    return static_cast<char>(0x80 | ((c >> shift) & 0x3f));
  };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0 | (c >> 6)), last(0)};
  if (c < 0x10000) {
    return {static_cast<char>(0xe0 | (c >> 12)), last(6), last(0)};
  }
  return {static_cast<char>(0xf0 | (c >> 18)), last(12), last(6), last(0)};
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

CharacterTokenizer::CharacterTokenizer(std::vector<char32_t> characters)
    : characters_(std::move(characters)) {
  for (size_t n = 0; n < characters_.size(); ++n) {
    tokens_.emplace(characters_[n], kFirstOfText + static_cast<int64_t>(n));
  }
}

int64_t CharacterTokenizer::size() const {
  return kFirstOfText + std::ssize(characters_);
}

Tokens CharacterTokenizer::encode(std::string_view text) const {
  Tokens tokens;
  for (const char32_t character : characters_of(text)) {
    const auto found = tokens_.find(character);
    if (found == tokens_.end()) {
      std::string known = "the characters ";
      for (const auto& [one, token] : tokens_) known += utf8(one);
      throw_unknown(utf8(character), plain_text(known));
    }
    tokens.push_back(found->second);
  }
  return tokens;
}

std::string CharacterTokenizer::decode(std::span<const int64_t> tokens) const {
  std::string text;
  for (const int64_t token : tokens) {
    const int64_t at = text_index(token, characters_.size());
    if (at >= 0) text += utf8(characters_[static_cast<size_t>(at)]);
  }
  return text;
}

WordTokenizer::WordTokenizer(std::vector<std::string> words)
    : words_(std::move(words)) {
  for (size_t n = 0; n < words_.size(); ++n) {
    tokens_.emplace(words_[n], kFirstOfText + static_cast<int64_t>(n));
  }
}

int64_t WordTokenizer::size() const {
  return kFirstOfText + std::ssize(words_);
}

Tokens WordTokenizer::encode(std::string_view text) const {
  Tokens tokens;
  for (const auto& word : words_of(text)) {
    const auto found = tokens_.find(word);
    if (found == tokens_.end()) {
      std::string known = "the words";
      for (size_t n = 0; n < words_.size() && n < kNamed; ++n) {
        known += ' ';
        known += plain_text(words_[n]);
      }
      throw_unknown(word, known + (words_.size() > kNamed ? " ..." : ""));
    }
    tokens.push_back(found->second);
  }
  return tokens;
}

std::string WordTokenizer::decode(std::span<const int64_t> tokens) const {
  std::string text;
  for (const int64_t token : tokens) {
    const int64_t at = text_index(token, words_.size());
    if (at < 0) continue;
    text += (text.empty() ? "" : " ") + words_[static_cast<size_t>(at)];
  }
  return text;
}

}  // namespace propagator::data
