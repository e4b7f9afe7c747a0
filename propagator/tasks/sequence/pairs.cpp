#include "propagator/tasks/sequence/pairs.h"

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/core/random.h"

namespace propagator::tasks {
namespace {

using data::Split;
using data::Tokens;

constexpr int64_t kMostTries = 10000;

// FNV-1a of the tokens: nothing but spread.
Split split_of(const Tokens& tokens) {
  uint64_t hash = 14695981039346656037ull;
  for (const int64_t token : tokens) {
    hash = (hash ^ static_cast<uint64_t>(token)) * 1099511628211ull;
  }
  hash ^= hash >> 32;
  const auto tenth = hash % 10;
  return tenth == 0   ? Split::kTest
         : tenth == 1 ? Split::kValidation
                      : Split::kTrain;
}

// Number `row` of a split.
Tokens draw_letters(const SequenceDataOptions& options, Split split,
                    const RandomStream& stream, int64_t row) {
  int64_t index = 0;
  for (int64_t tries = 0; tries < kMostTries; ++tries) {
    const int64_t length =
        options.min_length +
        stream.below(options.max_length - options.min_length + 1, row, index++);
    Tokens letters;
    for (int64_t n = 0; n < length; ++n) {
      letters.push_back(data::kFirstOfText +
                        stream.below(options.symbols, row, index++));
    }
    if (split_of(letters) == split) return letters;
  }
  throw DataError(
      "[sequence] there are too few sequences to train, validate "
      "and test with others each",
      "raise data.max_length or data.symbols");
}

}  // namespace

torch::Tensor padded_rows(const std::vector<Tokens>& rows, int64_t width) {
  auto all = torch::full({std::ssize(rows), width}, data::kPad, torch::kInt64);
  auto* to = all.data_ptr<int64_t>();
  for (const auto& row : rows) {
    std::ranges::copy(row, to);
    to += width;
  }
  return all;
}

std::unique_ptr<data::Tokenizer> tokenizer_of_pairs(
    const SequenceDataOptions& options) {
  if (options.is_drawn()) {
    std::vector<char32_t> letters;
    for (int64_t n = 0; n < options.symbols; ++n) {
      letters.push_back(U'a' + static_cast<char32_t>(n));
    }
    return std::make_unique<data::CharacterTokenizer>(letters);
  }
  std::vector<std::string> words;
  for (size_t n = 0; n < options.phrases.size(); ++n) {
    const auto [given, follows] =
        parts_of_phrase(options.phrases[n], static_cast<int64_t>(n));
    for (const auto& word : data::words_of(given + " " + follows)) {
      if (!std::ranges::count(words, word)) words.push_back(word);
    }
  }
  return std::make_unique<data::WordTokenizer>(words);
}

SequencePairs draw_pairs(const SequenceDataOptions& options, Split split,
                         int64_t count, int64_t seed) {
  const RandomStream stream(seed, "data/" + config::name_of(split));
  std::vector<Tokens> sources, targets;
  for (int64_t row = 0; row < count; ++row) {
    auto letters = draw_letters(options, split, stream, row);
    sources.push_back(letters);
    if (options.source == SequenceSource::kReverse) {
      std::ranges::reverse(letters);
    } else if (options.source == SequenceSource::kSort) {
      std::ranges::sort(letters);
    }
    letters.push_back(data::kEnd);
    targets.push_back(std::move(letters));
  }
  return {padded_rows(sources, options.max_length),
          padded_rows(targets, options.max_length + 1)};
}

SequencePairs phrase_pairs(const SequenceDataOptions& options) {
  const auto tokenizer = tokenizer_of_pairs(options);
  std::vector<Tokens> sources, targets;
  int64_t source_length = 0, target_length = 0;
  for (size_t n = 0; n < options.phrases.size(); ++n) {
    const auto [given, follows] =
        parts_of_phrase(options.phrases[n], static_cast<int64_t>(n));
    sources.push_back(tokenizer->encode(given));
    targets.push_back(tokenizer->encode(follows));
    targets.back().push_back(data::kEnd);
    source_length = std::max(source_length, std::ssize(sources.back()));
    target_length = std::max(target_length, std::ssize(targets.back()));
  }
  return {padded_rows(sources, source_length),
          padded_rows(targets, target_length)};
}

}  // namespace propagator::tasks
