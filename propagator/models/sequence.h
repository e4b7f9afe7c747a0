#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/core/kinds.h"
#include "propagator/data/tokenizer.h"
#include "propagator/nn/attention.h"

namespace propagator::models {

// What sequences are made of, and how long they are at most.
struct SequenceShape {
  int64_t tokens = 3;  // how many there are, those that are no text included
  int64_t source = 0;  // of a source; 0: there is none
  int64_t target = 1;  // of a target, its end included
  // A table of numbers that the model keeps for whoever makes its tokens, as
  // the characters of a text; empty: none.
  std::vector<int64_t> vocabulary = {};
};

// Sequences in the making: what a model knows of the tokens so far is cached,
// so that a token costs one token of work.
class Continuation {
 public:
  virtual ~Continuation() = default;

  // Appends tokens (B, n) to the targets and returns the logits (B, V) of those
  // that follow. The first of all tokens is kStart.
  virtual torch::Tensor step(const torch::Tensor& tokens) = 0;
  // Row n goes on from where row rows[n] is, (rows) int64.
  virtual void select(const torch::Tensor& rows) = 0;
};

// p(target | source) = Π p(target_t | source, target_<t), of tokens int64.
// Sequences of a batch that are shorter than others end with kPad.
class SequenceModel : public torch::nn::Module {
 public:
  explicit SequenceModel(const SequenceShape& shape);

  // Teacher forcing: the logits (B, T, V) of every token of the targets (B, T),
  // each from the sources (B, S) and the tokens before it.
  virtual torch::Tensor forward(const torch::Tensor& source,
                                const torch::Tensor& target) = 0;
  // Targets of up to shape().target tokens for sources (B, S) of one length.
  // It refers to the model. Without gradients.
  virtual std::unique_ptr<Continuation> begin(const torch::Tensor& source) = 0;
  // Its attention from tokens of the target, of each layer, to be observed.
  virtual void observe(nn::MultiHeadAttentionImpl::Observer observer) = 0;

  const SequenceShape& shape() const { return shape_; }
  torch::Tensor& vocabulary() { return vocabulary_; }

 protected:
  // UsageError if they are not (B, S) and (B, T) of at most the shape's tokens.
  void expect(const torch::Tensor& source, const torch::Tensor& target) const;
  // The same of sources alone, and of one length.
  void expect_whole(const torch::Tensor& source) const;

 private:
  SequenceShape shape_;
  torch::Tensor vocabulary_;
};

// The sequence model that a task's module is.
inline SequenceModel& as_sequence(torch::nn::Module& model) {
  return dynamic_cast<SequenceModel&>(model);
}

// Tokens (B, n) as vectors (B, n, C), of which the first is at place `first`:
//   √C embedding + positional encoding.
torch::Tensor embedded(const torch::Tensor& tokens,
                       const torch::Tensor& embedding,
                       const torch::Tensor& places, int64_t first);

// Rows of caches, in this order.
void select_rows(std::vector<nn::KeyValueCache>& caches,
                 const torch::Tensor& rows);

// What all of them have: a stack of layers.
struct StackOptions {
  int64_t layers = 2;
  int64_t width = 64;
  int64_t heads = 4;
  int64_t feed_forward = 256;

  void describe(config::Schema& schema);
  void validate() const;
};

// A kind of sequence model: its options, which also make it.
class SequenceOptions {
 public:
  virtual ~SequenceOptions() = default;
  virtual void describe(config::Schema& schema) { stack.describe(schema); }
  // ConfigError if the fields contradict one another.
  virtual void validate() const { stack.validate(); }
  virtual std::shared_ptr<SequenceModel> make(
      const SequenceShape& shape) const = 0;

  StackOptions stack;
};

// The sequence models by name, as `model.name` in a configuration.
const Kinds<SequenceOptions>& sequence_models();

}  // namespace propagator::models
