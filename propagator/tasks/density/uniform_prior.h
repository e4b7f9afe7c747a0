#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "propagator/core/random.h"
#include "propagator/nn/support.h"

namespace propagator::tasks {

// Unknowns that are uniform between two numbers each, independent of one
// another, before anything is observed.
class UniformPrior {
 public:
  struct Range {
    double low, high;
    std::string high_key;  // of the configuration, for errors
  };
  // ConfigError if a range is empty, or too narrow for float32.
  explicit UniformPrior(std::vector<Range> ranges);

  // (D): numbers [0, D) of a row of the stream. Never on an edge.
  std::vector<double> draw(const RandomStream& stream, int64_t row) const;
  // The nearest place inside, off the edges by a share of the range.
  torch::Tensor confine(const torch::Tensor& x, double share) const;
  torch::Tensor inside(const torch::Tensor& x) const;  // (N, D) → (N) bool
  double log_density() const;                          // inside
  nn::Supports supports() const;
  std::vector<double> widths() const;

 private:
  std::vector<Range> ranges_;
};

}  // namespace propagator::tasks
