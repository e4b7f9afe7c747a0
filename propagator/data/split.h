#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "propagator/core/config.h"

namespace propagator::data {

enum class Split { kTrain, kValidation, kTest, kAll };

// How much of all cases each split has.
struct SplitShares {
  double train = 0.7, validation = 0.2, test = 0.1;
};

// Which cases belong to which split: a permutation of all cases fixed by the
// seed, cut at 70 % and 90 %, or by other shares.
struct SplitIndices {
  std::vector<int64_t> train, validation, test, all;

  const std::vector<int64_t>& of(Split split) const;
};

constexpr int64_t kFewestCases = 10;

SplitIndices make_split(int64_t cases, int64_t seed,
                        const SplitShares& shares = {});

// The cases of step number `step` when `batch` of `size` positions are drawn
// without repeats, a fresh order each epoch, the last short batch left out.
// A function of its arguments alone: there is no sampler state to save.
class BatchSampler {
 public:
  BatchSampler(int64_t size, int64_t batch, int64_t seed);

  int64_t batches_per_epoch() const { return size_ / batch_; }
  std::vector<int64_t> batch(int64_t number);

 private:
  int64_t size_, batch_, seed_;
  int64_t epoch_ = -1;  // the epoch that `order_` belongs to
  std::vector<int64_t> order_;
};

}  // namespace propagator::data

namespace propagator::config {

template <>
struct Names<data::Split> {
  using enum data::Split;
  static constexpr std::pair<data::Split, const char*> all[] = {
      {kTrain, "train"},
      {kValidation, "validation"},
      {kTest, "test"},
      {kAll, "all"}};
};

}  // namespace propagator::config
