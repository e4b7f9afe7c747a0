#pragma once

#include <torch/types.h>

#include <optional>
#include <string>
#include <vector>

#include "propagator/nn/support.h"

namespace propagator::tasks {

// What a simulator draws: numbers that nobody sees, and what is observed of
// them. On the CPU in float64.
struct Pairs {
  torch::Tensor unknown;   // (N, D)
  torch::Tensor observed;  // (N, C)
};

// A question that a simulator asks: what are the unknowns, given what is
// observed? Pairs that it draws teach a density the answer, p(unknown |
// observed), whole.
class Inference {
 public:
  virtual ~Inference() = default;

  virtual std::vector<std::string> unknowns() const = 0;
  virtual std::vector<std::string> observed() const = 0;
  // What it means, for people.
  virtual std::string describe() const = 0;

  // Where the unknowns can be: anywhere, unless the prior has edges.
  virtual nn::Supports supports() const { return {}; }
  // What errors of the unknowns are measured in, one for each.
  virtual std::vector<double> units() const {
    return std::vector<double>(unknowns().size(), 1);
  }

  // Pairs [begin, begin + count) of the ensemble that `seed` names.
  virtual Pairs draw(int64_t seed, int64_t begin, int64_t count) const = 0;
  // The classical answer, (N, D), which the density starts from; inside the
  // supports, not on their edges.
  virtual torch::Tensor estimate(const torch::Tensor& observed) const = 0;
  virtual std::string name_of_estimate() const = 0;
  // What a network sees of what is observed, (N, S): all of it, unless fewer
  // numbers say as much.
  virtual torch::Tensor summary(const torch::Tensor& observed) const {
    return observed;
  }
  virtual int64_t summary_numbers() const { return std::ssize(observed()); }
  // log p(observed | unknown) p(unknown), (N), but for a constant; -inf where
  // the unknowns cannot be.
  virtual torch::Tensor log_joint(const torch::Tensor& unknown,
                                  const torch::Tensor& observed) const = 0;
  // The logarithm of its integral over the unknowns, (N), where that can be
  // computed: then the posterior is known everywhere.
  virtual std::optional<torch::Tensor> log_evidence(
      const torch::Tensor& /*observed*/) const {
    return std::nullopt;
  }
};

// What a model is given for what is observed, (N, C): the classical answer
// comes first, on the line that its support is taken to, then the summary.
// Without a question all of it as it is.
torch::Tensor complete(const Inference* inference, const torch::Tensor& given);

}  // namespace propagator::tasks
