#pragma once

#include <filesystem>
#include <memory>

#include "propagator/data/tokenizer.h"
#include "propagator/tasks/sequence/sequence_options.h"

namespace propagator::tasks {

// A text in three parts that have nothing in common: pieces of some lines,
// which a permutation by the seed divides as data::make_split does.
struct TextParts {
  std::string train, validation, test;
};

// A file, or the .md and .txt files of a folder in the order of their names.
// FileError if there are none; DataError if it is too large.
std::string read_text(const std::filesystem::path& path);

// DataError names `source` if there are too few lines.
TextParts part_text(const std::string& text, int64_t seed,
                    const std::string& source);

// The vocabulary of a text as numbers that a model can keep: those of its
// characters, (V), or of its pairs, (P, 2); -1 where there are fewer.
std::vector<int64_t> vocabulary_shape(const SequenceDataOptions& options);
// Characters are those of the whole text, pairs those of its training part.
// DataError if there are more characters than the vocabulary takes.
torch::Tensor learn_vocabulary(const SequenceDataOptions& options,
                               const TextParts& text);
std::unique_ptr<data::Tokenizer> tokenizer_of_vocabulary(
    const SequenceDataOptions& options, const torch::Tensor& vocabulary);

}  // namespace propagator::tasks
