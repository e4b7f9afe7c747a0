#pragma once

#include <string_view>

#include "propagator/core/random.h"
#include "propagator/physics/fields/field_problem.h"

namespace propagator::physics {

// Random numbers of cases: each is a function of the seed, the name of the
// draw, the case and the number's place, so that neither the batch nor the
// device changes it. All are (N, count), float64 on the CPU.
class CaseDraws {
 public:
  CaseDraws(const CaseRange& range, std::string_view name)
      : stream_(range.seed, name), first_(range.first), cases_(range.count) {}

  // Uniform on [low, high).
  torch::Tensor uniform(int64_t count, double low, double high) const;
  // The same of logarithms.
  torch::Tensor log_uniform(int64_t count, double low, double high) const;
  // Whole numbers from low to high, both of them possible.
  torch::Tensor whole(int64_t count, int64_t low, int64_t high) const;
  // Mean 0 and variance 1, by the Box-Muller transform.
  torch::Tensor normal(int64_t count) const;

 private:
  RandomStream stream_;
  int64_t first_, cases_;
};

}  // namespace propagator::physics
