#include "propagator/tasks/sequence/sequence_options.h"

#include "propagator/data/byte_pairs.h"

namespace propagator::tasks {
namespace {

constexpr int64_t kUsualCharacters = 128, kUsualBytePairs = 512;

}  // namespace

void SequenceDataOptions::describe(config::Schema& s) {
  s.field("source", source,
          {.help = "where sequences come from: symbols to copy, to reverse or "
                   "to sort, phrases of data.phrases, or a text"});
  s.field("symbols", symbols,
          {.help = "how many letters are copied, reversed or sorted",
           .min = 2,
           .max = 26});
  s.field("min_length", min_length,
          {.help = "letters of the shortest sequence", .min = 1});
  s.field("max_length", max_length,
          {.help = "letters of the longest sequence", .min = 1, .max = 4096});
  s.field("phrases", phrases,
          {.help = "what is given and what follows, as `I am -> a teacher`"});
  s.field("file", file,
          {.help = "a text, or a folder whose .md and .txt files are read in "
                   "the order of their names; beside the configuration",
           .role = config::Role::kInput,
           .file = true});
  s.field("tokens", tokens,
          {.help = "tokens of a text: its characters, or bytes and pairs that "
                   "are frequent"});
  s.field("vocabulary", vocabulary,
          {.help = "most tokens of a text; 0 takes 128 for characters and 512 "
                   "for byte pairs",
           .min = 0,
           .max = 100000});
  s.field("window", window,
          {.help = "tokens of a text that a model sees at once",
           .min = 2,
           .max = 16384,
           .memory = true});
  s.field("samples", samples,
          {.help = "how many sequences, or windows of a text, an epoch has",
           .min = 1});
  s.field("validation", validation,
          {.help = "how many sequences, or windows of a text, validation uses",
           .min = 1});
}

void SequenceEvalOptions::describe(config::Schema& s) {
  s.field("samples", samples,
          {.help = "how many sequences are tested; a text is tested whole",
           .min = 1});
  s.field("batch", batch,
          {.help = "sequences of one forward pass in a test",
           .min = 1,
           .memory = true});
  s.field("attention", attention,
          {.help = "whether a query of a trained model takes the mean of all "
                   "values (soft) or that of its best key alone (hard)"});
}

bool SequenceDataOptions::is_drawn() const {
  return source != SequenceSource::kPhrases && !is_text();
}

int64_t SequenceDataOptions::text_tokens() const {
  if (vocabulary > 0) return vocabulary;
  return tokens == TextTokens::kCharacter ? kUsualCharacters : kUsualBytePairs;
}

void SequenceDataOptions::validate() const {
  if (min_length > max_length) {
    throw ConfigError("data.min_length",
                      fmt::format("expected at most data.max_length = {}, got "
                                  "{}",
                                  max_length, min_length));
  }
  if (source == SequenceSource::kPhrases && phrases.empty()) {
    throw ConfigError("data.phrases", "there is no phrase to learn",
                      "as data.phrases=[I am -> a teacher]");
  }
  for (size_t n = 0; n < phrases.size(); ++n) {
    parts_of_phrase(phrases[n], static_cast<int64_t>(n));
  }
  if (!is_text()) return;
  if (file.empty()) {
    throw ConfigError("data.file", "there is no text to learn from",
                      "name a file, or a folder of texts");
  }
  if (tokens == TextTokens::kBytePair && text_tokens() <= data::kByteTokens) {
    throw ConfigError(
        "data.vocabulary",
        fmt::format("expected more than the {} bytes there are, got {}",
                    data::kByteTokens, text_tokens()));
  }
}

std::vector<std::pair<std::string, std::string>> SequenceDataOptions::unused()
    const {
  std::vector<std::pair<std::string, std::string>> unused;
  if (!is_drawn()) {
    for (const char* key :
         {"data.symbols", "data.min_length", "data.max_length"}) {
      unused.emplace_back(key, "it is for letters that are drawn");
    }
  }
  if (source != SequenceSource::kPhrases) {
    unused.emplace_back("data.phrases", "data.source is not phrases");
  } else {
    for (const char* key : {"data.samples", "data.validation"}) {
      unused.emplace_back(key, "an epoch has each phrase once");
    }
  }
  if (!is_text()) {
    for (const char* key :
         {"data.file", "data.tokens", "data.vocabulary", "data.window"}) {
      unused.emplace_back(key, "data.source is not text");
    }
  }
  if (!is_drawn()) {
    unused.emplace_back("eval.samples", is_text() ? "a text is tested whole"
                                                  : "all phrases are tested");
  }
  return unused;
}

std::pair<std::string, std::string> parts_of_phrase(const std::string& phrase,
                                                    int64_t item) {
  constexpr std::string_view kArrow = "->";
  const size_t at = phrase.find(kArrow);
  if (at != std::string::npos) {
    const auto given = phrase.substr(0, at),
               follows = phrase.substr(at + kArrow.size());
    if (!data::words_of(given).empty() && !data::words_of(follows).empty()) {
      return {given, follows};
    }
  }
  throw ConfigError(
      "data.phrases",
      fmt::format("expected words, -> and words, got '{}'", phrase),
      "as `I am -> a teacher`", item);
}

}  // namespace propagator::tasks
