#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/physics/detector/detector.h"

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

  // Pairs [begin, begin + count) of the ensemble that `seed` names.
  virtual Pairs draw(int64_t seed, int64_t begin, int64_t count) const = 0;
  // The classical answer, (N, D), which the density starts from.
  virtual torch::Tensor estimate(const torch::Tensor& observed) const = 0;
  virtual std::string name_of_estimate() const = 0;
  // log p(observed | unknown) p(unknown), (N), but for a constant; -inf where
  // the unknowns cannot be.
  virtual torch::Tensor log_joint(const torch::Tensor& unknown,
                                  const torch::Tensor& observed) const = 0;
};

// What a model is given for what is observed, (N, C): the classical answer
// comes first. Without a question all of it as it is.
torch::Tensor complete(const Inference* inference, const torch::Tensor& given);

enum class InferenceName { kNone, kVertex };

struct InferenceOptions {
  InferenceName name = InferenceName::kNone;
  physics::DetectorOptions detector = {.jitter = 1};

  void describe(config::Schema& schema);
  // ConfigError if the fields contradict one another; nothing of `none`.
  std::unique_ptr<Inference> make() const;
};

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::InferenceName> {
  using enum tasks::InferenceName;
  static constexpr std::pair<tasks::InferenceName, const char*> all[] = {
      {kNone, "none"}, {kVertex, "vertex"}};
};

}  // namespace propagator::config
