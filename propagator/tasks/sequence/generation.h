#pragma once

#include <functional>

#include "propagator/core/random.h"
#include "propagator/models/sequence.h"
#include "propagator/nn/token_choice.h"

namespace propagator::tasks {

// Of a model whose vocabulary has room for more tokens than there are: the
// logits of the first `tokens` alone.
class KnownTokens : public models::Continuation {
 public:
  KnownTokens(std::unique_ptr<models::Continuation> state, int64_t tokens)
      : state_(std::move(state)), tokens_(tokens) {}

  torch::Tensor step(const torch::Tensor& tokens) override {
    return state_->step(tokens).narrow(1, 0, tokens_);
  }
  void select(const torch::Tensor& rows) override { state_->select(rows); }

 private:
  std::unique_ptr<models::Continuation> state_;
  int64_t tokens_;
};

// Goes on, in each row, after the tokens `first` (B, n) with tokens that are
// chosen one by one, until kEnd, which is left out, or `most` tokens. Token t
// of row b is drawn by the stream's number `drawn` + t of row `first_row` + b,
// so that the same stream writes the same.
struct Generated {
  std::vector<data::Tokens> tokens;
  std::vector<bool> ended;
};
Generated generate_tokens(models::Continuation& state,
                          const torch::Tensor& first,
                          const nn::TokenChoice& choice, int64_t most,
                          const RandomStream& stream, int64_t first_row = 0,
                          int64_t drawn = 0);

// The same from the start for sources (B, S), with the first `tokens` that
// there are and for as many as are wanted: where the targets fill the model's
// window, it goes on from the last half of them.
std::vector<data::Tokens> continued(models::SequenceModel& model,
                                    const torch::Tensor& source,
                                    const torch::Tensor& first, int64_t tokens,
                                    const nn::TokenChoice& choice,
                                    int64_t length, const RandomStream& stream);

// A sequence that a search found, without kEnd, and the logarithm of its
// probability, that of its end included where it has ended.
struct FoundSequence {
  data::Tokens tokens;
  double log_probability = 0;
  bool ended = false;
};

// Beam search after `first` (1, n): of all ways to go on from the `width` best
// beginnings the `width` best are kept at each token, so that a width of 1 is
// greedy and one as large as the number of beginnings finds the most probable
// sequence of up to `most` tokens. The best come first, `width` at most.
std::vector<FoundSequence> beam_search(models::Continuation& state,
                                       const torch::Tensor& first,
                                       int64_t width, int64_t most);

}  // namespace propagator::tasks
