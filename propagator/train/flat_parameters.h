#pragma once

#include <torch/nn/module.h>

#include <map>
#include <string>
#include <vector>

#include "propagator/train/low_rank.h"

namespace propagator::train {

// All trainable parameters of a module in one buffer, and their gradients in
// another, so that an optimiser step, a norm or an all-reduce is one call. The
// module's parameters become views of the buffer. Between them are zeros, whose
// gradient is zero, so that each begins where memory is aligned.
class FlatParameters {
 public:
  struct Segment {
    std::string name;
    int64_t offset, size;
  };
  // Matrices of one shape that follow each other.
  struct Stack {
    int64_t offset, stride;  // of the first; from one to the next
    int64_t count, rows, columns;
  };
  enum class Order { kAsNamed, kMatricesLast };

  // `others` are learned beside the module's, and come first. Parameters that
  // `low_rank` computes are not here: its factors are, among the others.
  explicit FlatParameters(
      torch::nn::Module& module,
      const std::map<std::string, torch::Tensor>& others = {},
      Order order = Order::kAsNamed, LowRank* low_rank = nullptr);

  torch::Tensor& values() { return values_; }
  torch::Tensor& gradients() { return gradients_; }
  const std::vector<Segment>& segments() const { return segments_; }
  // With matrices last: they, by shape, and where they begin.
  const std::vector<Stack>& stacks() const { return stacks_; }
  int64_t matrices_begin() const {
    return stacks_.empty() ? values_.numel() : stacks_.front().offset;
  }

  // Goes back from `loss` and adds `share` of its gradient to `gradients`, all
  // parameters in one call, where `loss.backward()` makes one for each.
  void add_gradient_of(const torch::Tensor& loss, double share);
  // Whoever has changed the values says so: what is computed from them follows.
  void refresh() {
    if (low_rank_ != nullptr) low_rank_->refresh();
  }

 private:
  torch::Tensor values_, gradients_;
  std::vector<torch::Tensor> parameters_;  // what autograd goes back to
  LowRank* low_rank_;
  std::vector<Segment> segments_;
  std::vector<Stack> stacks_;
};

}  // namespace propagator::train
