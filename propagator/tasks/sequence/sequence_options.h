#pragma once

#include "propagator/core/config.h"

namespace propagator::tasks {

// Where sequences come from: symbols to be copied, reversed or sorted; phrases
// that the configuration has; a text.
enum class SequenceSource { kCopy, kReverse, kSort, kPhrases, kText };

enum class TextTokens { kCharacter, kBytePair };

// What a query takes: the mean of all values, or that of its best key alone.
enum class AttentionMode { kSoft, kHard };

struct SequenceDataOptions {
  SequenceSource source = SequenceSource::kCopy;
  int64_t symbols = 26;
  int64_t min_length = 1, max_length = 20;
  std::vector<std::string> phrases = {};
  std::string file;
  TextTokens tokens = TextTokens::kCharacter;
  int64_t vocabulary = 0;  // 0: as many as the kind of tokens usually has
  int64_t window = 128;
  int64_t samples = 20000;
  int64_t validation = 500;

  void describe(config::Schema& schema);
  void validate() const;
  std::vector<std::pair<std::string, std::string>> unused() const;
  // Symbols are drawn, so that there are as many sequences as are wanted.
  bool is_drawn() const;
  bool is_text() const { return source == SequenceSource::kText; }
  // Tokens of text, those that are none left out.
  int64_t text_tokens() const;
};

struct SequenceEvalOptions {
  int64_t samples = 1000;
  int64_t batch = 250;
  AttentionMode attention = AttentionMode::kSoft;

  void describe(config::Schema& schema);
};

// The parts of "I am -> a teacher": what is given, what follows. ConfigError,
// which names the item, if there is no arrow between two texts.
std::pair<std::string, std::string> parts_of_phrase(const std::string& phrase,
                                                    int64_t item);

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::SequenceSource> {
  using enum tasks::SequenceSource;
  static constexpr std::pair<tasks::SequenceSource, const char*> all[] = {
      {kCopy, "copy"},
      {kReverse, "reverse"},
      {kSort, "sort"},
      {kPhrases, "phrases"},
      {kText, "text"}};
};

template <>
struct Names<tasks::TextTokens> {
  using enum tasks::TextTokens;
  static constexpr std::pair<tasks::TextTokens, const char*> all[] = {
      {kCharacter, "character"}, {kBytePair, "bytepair"}};
};

template <>
struct Names<tasks::AttentionMode> {
  using enum tasks::AttentionMode;
  static constexpr std::pair<tasks::AttentionMode, const char*> all[] = {
      {kSoft, "soft"}, {kHard, "hard"}};
};

}  // namespace propagator::config
