#include "propagator/data/byte_pairs.h"

#include <fmt/format.h>

#include "propagator/core/error.h"

namespace propagator::data {
namespace {

enum class ByteKind { kSpace, kWord, kOther };

ByteKind kind_of(char c) {
  const auto byte = static_cast<unsigned char>(c);
  const bool letter = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
  const bool digit = byte >= '0' && byte <= '9';
  if (letter || digit || byte >= 0x80) return ByteKind::kWord;
  return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'
             ? ByteKind::kSpace
             : ByteKind::kOther;
}

// Text cut where the kind of byte changes, but for a space before a word.
std::vector<std::string_view> pieces_of(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + 1;
    ByteKind kind = kind_of(text[begin]);
    if (text[begin] == ' ' && end < text.size() &&
        kind_of(text[end]) != ByteKind::kSpace) {
      kind = kind_of(text[end++]);
    }
    while (end < text.size() && kind_of(text[end]) == kind &&
           !(text[end] == ' ' && end + 1 < text.size() &&
             kind_of(text[end + 1]) != ByteKind::kSpace)) {
      ++end;
    }
    pieces.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

Tokens bytes_of(std::string_view word) {
  Tokens bytes;
  for (const char c : word) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

// Each occurrence of the pair, from the left, becomes `made`.
void join(Tokens& word, const BytePair& pair, int64_t made) {
  size_t kept = 0;
  for (size_t n = 0; n < word.size(); ++n) {
    const bool here = n + 1 < word.size() && word[n] == pair.first &&
                      word[n + 1] == pair.second;
    word[kept++] = here ? made : word[n];
    if (here) ++n;
  }
  word.resize(kept);
}

}  // namespace

BytePairTokenizer::BytePairTokenizer(std::vector<BytePair> pairs)
    : pairs_(std::move(pairs)) {
  for (int64_t byte = 0; byte < kByteTokens; ++byte) {
    bytes_.emplace_back(1, static_cast<char>(byte));
  }
  for (const auto& [left, right] : pairs_) {
    const int64_t made = std::ssize(bytes_);
    if (left < 0 || right < 0 || left >= made || right >= made) {
      throw UsageError(
          fmt::format("[byte_pairs] expected a pair of 0 to {}, got {} and {}",
                      made - 1, left, right));
    }
    joined_.emplace(BytePair{left, right}, made);
    bytes_.push_back(bytes_[static_cast<size_t>(left)] +
                     bytes_[static_cast<size_t>(right)]);
  }
}

int64_t BytePairTokenizer::size() const {
  return kFirstOfText + std::ssize(bytes_);
}

Tokens BytePairTokenizer::encode_word(std::string_view text) const {
  auto word = bytes_of(text);
  while (word.size() > 1) {
    auto best = joined_.end();
    for (size_t n = 0; n + 1 < word.size(); ++n) {
      const auto found = joined_.find({word[n], word[n + 1]});
      if (found == joined_.end()) continue;
      if (best == joined_.end() || found->second < best->second) best = found;
    }
    if (best == joined_.end()) break;
    join(word, best->first, best->second);
  }
  for (auto& token : word) token += kFirstOfText;
  return word;
}

Tokens BytePairTokenizer::encode(std::string_view text) const {
  std::map<std::string_view, Tokens> known;
  Tokens tokens;
  for (const auto piece : pieces_of(text)) {
    auto found = known.find(piece);
    if (found == known.end()) {
      found = known.emplace(piece, encode_word(piece)).first;
    }
    tokens.insert(tokens.end(), found->second.begin(), found->second.end());
  }
  return tokens;
}

std::string BytePairTokenizer::decode(std::span<const int64_t> tokens) const {
  std::string text;
  for (const int64_t token : tokens) {
    if (token >= 0 && token < kFirstOfText) continue;
    if (token < 0 || token >= size()) {
      throw UsageError(
          fmt::format("[byte_pairs] expected tokens from 0 to {}, got {}",
                      size() - 1, token));
    }
    text += bytes_[static_cast<size_t>(token - kFirstOfText)];
  }
  return text;
}

std::vector<BytePair> learn_byte_pairs(std::string_view text, int64_t count) {
  std::map<std::string_view, int64_t> pieces;
  for (const auto piece : pieces_of(text)) ++pieces[piece];
  std::vector<std::pair<Tokens, int64_t>> words;
  for (const auto& [piece, times] : pieces) {
    words.emplace_back(bytes_of(piece), times);
  }
  std::vector<BytePair> learned;
  while (std::ssize(learned) < count) {
    std::map<BytePair, int64_t> times;
    for (const auto& [word, n] : words) {
      for (size_t at = 0; at + 1 < word.size(); ++at) {
        times[{word[at], word[at + 1]}] += n;
      }
    }
    auto best = times.begin();
    for (auto one = times.begin(); one != times.end(); ++one) {
      if (one->second > best->second) best = one;
    }
    if (best == times.end() || best->second < 2) break;
    const int64_t made = kByteTokens + std::ssize(learned);
    learned.push_back(best->first);
    for (auto& [word, n] : words) join(word, best->first, made);
  }
  return learned;
}

}  // namespace propagator::data
