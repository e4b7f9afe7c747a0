#pragma once

#include <memory>

#include "propagator/data/split.h"
#include "propagator/data/tokenizer.h"
#include "propagator/tasks/sequence/sequence_options.h"

namespace propagator::tasks {

// Sources (N, S) and targets (N, T) of tokens, int64; kPad behind their ends.
// Targets end with kEnd where they end at all.
struct SequencePairs {
  torch::Tensor source, target;
};

// The first letters of the alphabet, or the words of the phrases.
std::unique_ptr<data::Tokenizer> tokenizer_of_pairs(
    const SequenceDataOptions& options);

// `count` sequences of letters and what becomes of them. Which split a sequence
// belongs to is decided by its letters alone, eight tenths to training and one
// each to validation and test, so that no split has one of another.
// DataError if there are hardly any sequences for that.
SequencePairs draw_pairs(const SequenceDataOptions& options, data::Split split,
                         int64_t count, int64_t seed);

// The phrases, one a row.
SequencePairs phrase_pairs(const SequenceDataOptions& options);

// Rows of tokens, each shorter one padded.
torch::Tensor padded_rows(const std::vector<data::Tokens>& rows, int64_t width);

}  // namespace propagator::tasks
