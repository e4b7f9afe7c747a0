#include "propagator/tasks/sequence/text.h"

#include <algorithm>
#include <set>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/data/byte_pairs.h"
#include "propagator/data/split.h"

namespace propagator::tasks {
namespace {

constexpr size_t kLargest = size_t{1} << 28;  // bytes of a text
constexpr size_t kPieces = 100;               // about so many of a text
constexpr size_t kSmallestPiece = 200;        // bytes

std::string with_limit(const fs::path& path) {
  std::error_code error;
  if (fs::file_size(path, error) > kLargest && !error) {
    throw DataError(fmt::format("{}: a text of more than {} MiB", path.string(),
                                kLargest >> 20));
  }
  return read_file(path);
}

}  // namespace

std::string read_text(const fs::path& path) {
  if (!fs::is_directory(path)) return with_limit(path);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    const auto kind = entry.path().extension();
    if (entry.is_regular_file() && (kind == ".md" || kind == ".txt")) {
      files.push_back(entry.path());
    }
  }
  if (files.empty()) {
    throw FileError(path.string() + ": no .md or .txt file in this folder");
  }
  std::ranges::sort(files);
  std::string text;
  for (const auto& file : files) {
    text += with_limit(file);
    if (!text.ends_with('\n')) text += '\n';
    if (text.size() > kLargest) {
      throw DataError(fmt::format("{}: more than {} MiB of text", path.string(),
                                  kLargest >> 20));
    }
  }
  return text;
}

TextParts part_text(const std::string& text, int64_t seed,
                    const std::string& source) {
  const size_t enough = std::max(text.size() / kPieces, kSmallestPiece);
  std::vector<std::string> pieces(1);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    if (pieces.back().size() >= enough) pieces.emplace_back();
    pieces.back() += text.substr(begin, end - begin);
    begin = end;
  }
  if (std::ssize(pieces) < data::kFewestCases) {
    throw DataError(
        fmt::format("{}: {} bytes in lines are too few", source, text.size()),
        fmt::format("at least {} pieces of {} bytes, in lines, are needed to "
                    "train, validate and test",
                    data::kFewestCases, kSmallestPiece));
  }
  auto splits = data::make_split(std::ssize(pieces), seed);
  const auto join = [&](std::vector<int64_t>& numbers) {
    std::ranges::sort(numbers);
    std::string part;
    for (const int64_t n : numbers) part += pieces[static_cast<size_t>(n)];
    return part;
  };
  return {join(splits.train), join(splits.validation), join(splits.test)};
}

std::vector<int64_t> vocabulary_shape(const SequenceDataOptions& options) {
  if (!options.is_text()) return {};
  if (options.tokens == TextTokens::kCharacter) return {options.text_tokens()};
  return {options.text_tokens() - data::kByteTokens, 2};
}

torch::Tensor learn_vocabulary(const SequenceDataOptions& options,
                               const TextParts& text) {
  auto kept = torch::full(vocabulary_shape(options), -1, torch::kInt64);
  auto* to = kept.data_ptr<int64_t>();
  if (options.tokens == TextTokens::kBytePair) {
    for (const auto& [left, right] :
         data::learn_byte_pairs(text.train, kept.size(0))) {
      *to++ = left;
      *to++ = right;
    }
    return kept;
  }
  std::set<char32_t> found;
  for (const auto* part : {&text.train, &text.validation, &text.test}) {
    for (const char32_t c : data::characters_of(*part)) found.insert(c);
  }
  if (std::ssize(found) > kept.size(0)) {
    throw DataError(
        fmt::format("{}: {} different characters, more than the {} of "
                    "data.vocabulary",
                    options.file, found.size(), kept.size(0)),
        "raise data.vocabulary, or set data.tokens=bytepair");
  }
  for (const char32_t c : found) *to++ = static_cast<int64_t>(c);
  return kept;
}

std::unique_ptr<data::Tokenizer> tokenizer_of_vocabulary(
    const SequenceDataOptions& options, const torch::Tensor& vocabulary) {
  const auto numbers =
      vocabulary.detach().to(torch::kCPU, torch::kInt64).contiguous();
  const auto* from = numbers.data_ptr<int64_t>();
  if (options.tokens == TextTokens::kBytePair) {
    std::vector<data::BytePair> pairs;
    for (int64_t n = 0; n < numbers.size(0) && from[2 * n] >= 0; ++n) {
      pairs.emplace_back(from[2 * n], from[2 * n + 1]);
    }
    return std::make_unique<data::BytePairTokenizer>(std::move(pairs));
  }
  std::vector<char32_t> characters;
  for (int64_t n = 0; n < numbers.size(0) && from[n] >= 0; ++n) {
    characters.push_back(static_cast<char32_t>(from[n]));
  }
  return std::make_unique<data::CharacterTokenizer>(std::move(characters));
}

}  // namespace propagator::tasks
