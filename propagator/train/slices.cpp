#include "propagator/train/slices.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/ranks.h"

namespace propagator::train {
namespace {

void expect_enough_cases(const Parts& parts, int64_t slices) {
  const int64_t cases = parts.empty() ? 0 : parts.front().size(0);
  if (slices <= cases) return;
  throw ConfigError(
      "train.slices",
      fmt::format("a batch of {} cases cannot be cut into {} slices", cases,
                  slices),
      "set a smaller train.slices or a larger train.batch");
}

// Slices begin … end - 1 of a tree, and who has them.
class Node {
 public:
  Node(int64_t begin, int64_t end, int64_t slices)
      : begin_(begin), end_(end), slices_(slices) {}

  bool is_leaf() const { return end_ - begin_ == 1; }
  int64_t slice() const { return begin_; }
  Node left() const { return {begin_, middle(), slices_}; }
  Node right() const { return {middle(), end_, slices_}; }
  // Of its first slice.
  int owner() const {
    int rank = 0;
    while (!share_of(slices_, rank, ranks().size()).has(begin_)) ++rank;
    return rank;
  }
  bool is_own() const { return owner() == ranks().rank(); }
  // Whether this rank has a slice of it.
  bool has_own() const {
    const auto own = own_share(slices_);
    return own.begin < end_ && begin_ < own.end;
  }

 private:
  int64_t middle() const { return begin_ + (end_ - begin_ + 1) / 2; }

  int64_t begin_, end_, slices_;
};

void add_from(int rank, Sum& sum) {
  for (auto& values : sum) {
    const auto others = torch::empty_like(values);
    ranks().receive(others, rank);
    values += others;
  }
}

// The sum of a node that is this rank's; of another one, this rank's part of
// the work.
Sum sum_of(const Node& node, const std::function<Sum(int64_t)>& leaf) {
  if (node.is_leaf()) return leaf(node.slice());
  const auto left = node.left(), right = node.right();
  Sum sum, later;
  if (left.has_own()) sum = sum_of(left, leaf);
  if (right.has_own()) later = sum_of(right, leaf);
  if (left.is_own() && right.is_own()) {
    for (size_t n = 0; n < sum.size(); ++n) sum[n] += later[n];
  } else if (left.is_own()) {
    add_from(right.owner(), sum);
  } else if (right.is_own()) {
    for (const auto& values : later) ranks().send(values, left.owner());
  }
  // Whoever has no part of the node's own sum still has tensors like it, which
  // the broadcast fills.
  return sum.empty() ? later : sum;
}

}  // namespace

void expect_slices_for_ranks(int64_t slices) {
  const int count = ranks().size();
  if (slices >= count) return;
  throw ConfigError(
      "train.slices",
      fmt::format("train.slices={} cannot be shared by {} ranks", slices,
                  count),
      fmt::format("set train.slices to {} or more: results depend on it, and "
                  "not on how many ranks there are",
                  count));
}

std::vector<Parts> slices_of(const Parts& parts, int64_t slices) {
  expect_slices_for_ranks(slices);
  if (slices == 1) return {parts};
  expect_enough_cases(parts, slices);
  std::vector<Parts> cut(static_cast<size_t>(slices));
  for (const auto& part : parts) {
    for (int64_t n = 0; n < slices; ++n) {
      const auto share = share_of(part.size(0), n, slices);
      if (share.size() == 0) continue;
      cut[static_cast<size_t>(n)].push_back(
          part.narrow(0, share.begin, share.size()));
    }
  }
  return cut;
}

int64_t count_of(const Parts& parts) {
  int64_t count = 0;
  for (const auto& part : parts) count += part.size(0);
  return count;
}

Sum tree_sum(int64_t count, const std::function<Sum(int64_t)>& leaf) {
  auto sum = sum_of(Node(0, count, count), leaf);
  for (const auto& values : sum) ranks().broadcast(values, 0);
  return sum;
}

}  // namespace propagator::train
