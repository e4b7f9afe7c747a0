#include "propagator/data/split.h"

#include <fmt/format.h>

#include "propagator/core/error.h"
#include "propagator/core/random.h"

namespace propagator::data {

const std::vector<int64_t>& SplitIndices::of(Split split) const {
  switch (split) {
    case Split::kTrain:
      return train;
    case Split::kValidation:
      return validation;
    case Split::kTest:
      return test;
    default:
      return all;
  }
}

SplitIndices make_split(int64_t cases, int64_t seed,
                        const SplitShares& shares) {
  const auto order = RandomStream(seed, "split").permutation(cases, 0);
  // So much, but for the rounding of shares such as 0.7.
  const auto at = [&](double share) {
    return order.begin() +
           static_cast<int64_t>(static_cast<double>(cases) * share + 1e-6);
  };
  const auto first = at(shares.train);
  const auto second = at(shares.train + shares.validation);
  const auto third = at(shares.train + shares.validation + shares.test);
  SplitIndices split{
      {order.begin(), first}, {first, second}, {second, third}, order};
  if (cases < kFewestCases) {
    throw ConfigError("data.cases",
                      fmt::format("expected at least {} cases for a 70/20/10 "
                                  "split, got {}",
                                  kFewestCases, cases));
  }
  return split;
}

BatchSampler::BatchSampler(int64_t size, int64_t batch, int64_t seed)
    : size_(size), batch_(batch), seed_(seed) {
  if (batch > size) {
    throw ConfigError("train.batch",
                      fmt::format("train.batch: expected at most the {} "
                                  "training cases, got {}",
                                  size, batch),
                      "lower it, or have more of them");
  }
}

std::vector<int64_t> BatchSampler::batch(int64_t number) {
  const int64_t epoch = number / batches_per_epoch();
  if (epoch != epoch_) {
    order_ = RandomStream(seed_, "batches").permutation(size_, epoch);
    epoch_ = epoch;
  }
  const auto begin = order_.begin() + number % batches_per_epoch() * batch_;
  return {begin, begin + batch_};
}

}  // namespace propagator::data
