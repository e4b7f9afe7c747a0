#pragma once

#include <torch/types.h>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace propagator::data {

// Numbers of tokens, in order.
using Tokens = std::vector<int64_t>;

// Tokens that are no text come first: behind the end of a shorter sequence, in
// front of one, at its end.
inline constexpr int64_t kPad = 0, kStart = 1, kEnd = 2, kFirstOfText = 3;

// Text as tokens, and back. Decoding what was encoded gives the same text.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // How many tokens there are, those that are no text included.
  virtual int64_t size() const = 0;
  // UsageError names what of the text is no token.
  virtual Tokens encode(std::string_view text) const = 0;
  // Tokens that are no text leave none.
  virtual std::string decode(std::span<const int64_t> tokens) const = 0;
};

// A token for each of some characters, by their Unicode numbers.
class CharacterTokenizer : public Tokenizer {
 public:
  explicit CharacterTokenizer(std::vector<char32_t> characters);

  int64_t size() const override;
  Tokens encode(std::string_view text) const override;
  std::string decode(std::span<const int64_t> tokens) const override;

 private:
  std::vector<char32_t> characters_;
  std::map<char32_t, int64_t> tokens_;
};

// A token for each of some words, which spaces part. Text comes back with one
// space between words.
class WordTokenizer : public Tokenizer {
 public:
  explicit WordTokenizer(std::vector<std::string> words);

  int64_t size() const override;
  Tokens encode(std::string_view text) const override;
  std::string decode(std::span<const int64_t> tokens) const override;

 private:
  std::vector<std::string> words_;
  std::map<std::string, int64_t, std::less<>> tokens_;
};

// The characters of UTF-8 text. DataError, with the place, if it is none.
std::vector<char32_t> characters_of(std::string_view text);
std::string utf8(char32_t character);

// The words of text, which spaces part.
std::vector<std::string> words_of(std::string_view text);

}  // namespace propagator::data
