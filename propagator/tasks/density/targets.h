#pragma once

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/core/random.h"

namespace propagator::tasks {

// Distributions that are known, to learn from their samples.
//   lecture       x2 normal of variance 4, x1 normal about x2²/4: what one
//                 network with normal conditionals cannot be, in this order
//   rings         two rings about the origin
//   checkerboard  uniform over every second field of a board
//   chain         any number of variables, each normal about a function of the
//                 two before it
enum class TargetName { kNone, kLecture, kRings, kCheckerboard, kChain };

struct TargetOptions {
  TargetName name = TargetName::kNone;
  int64_t variables = 8;

  void describe(config::Schema& schema);
};

// One of them: x (N, D), float64 on the CPU.
class Target {
 public:
  // ConfigError if there is none so.
  explicit Target(const TargetOptions& options);

  std::vector<std::string> names() const;
  torch::Tensor sample(int64_t count, const RandomStream& stream) const;
  torch::Tensor log_prob(const torch::Tensor& x) const;  // (N), nats
  // - ∫ p log p: no model's mean log likelihood is above minus this.
  double entropy() const;
  // Where nearly all of the first two variables is: low and high ends.
  struct Window {
    std::pair<double, double> x, y;
  };
  Window window() const;

 private:
  TargetOptions options_;
};

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::TargetName> {
  using enum tasks::TargetName;
  static constexpr std::pair<tasks::TargetName, const char*> all[] = {
      {kNone, "none"},
      {kLecture, "lecture"},
      {kRings, "rings"},
      {kCheckerboard, "checkerboard"},
      {kChain, "chain"}};
};

}  // namespace propagator::config
