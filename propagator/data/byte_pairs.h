#pragma once

#include <utility>

#include "propagator/data/tokenizer.h"

namespace propagator::data {

inline constexpr int64_t kByteTokens = 256;

// Numbers of two parts that make a third: of bytes 0 … 255, and from 256 on of
// the pairs before it.
using BytePair = std::pair<int64_t, int64_t>;

// Byte-pair tokens: a token for each byte, and one for each of some pairs of
// tokens that often follow one another. Any bytes can be encoded. Text is cut
// into words first, each with the space in front of it, and no pair crosses a
// cut; within a word earlier pairs are joined first, from the left.
class BytePairTokenizer : public Tokenizer {
 public:
  // UsageError if a pair is not of what comes before it.
  explicit BytePairTokenizer(std::vector<BytePair> pairs);

  int64_t size() const override;
  Tokens encode(std::string_view text) const override;
  std::string decode(std::span<const int64_t> tokens) const override;

  const std::vector<BytePair>& pairs() const { return pairs_; }

 private:
  Tokens encode_word(std::string_view word) const;

  std::vector<BytePair> pairs_;
  std::map<BytePair, int64_t> joined_;
  std::vector<std::string> bytes_;  // of each token of text
};

// The `count` pairs that, one after another, are the most frequent in the text;
// of equal ones the smallest. Fewer if no pair is there twice.
std::vector<BytePair> learn_byte_pairs(std::string_view text, int64_t count);

}  // namespace propagator::data
