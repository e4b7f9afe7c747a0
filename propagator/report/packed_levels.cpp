#include "propagator/report/packed_levels.h"

#include <torch/utils.h>

#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace propagator::report {
namespace {

constexpr int kOrders = 3, kRateBits = 4;
constexpr uint32_t kLongest = 20;  // ones in a row

class BitWriter {
 public:
  // The low `count` bits, 24 at most.
  void add(uint32_t value, int count) {
    waiting_ = waiting_ << count | value;
    for (count_ += count; count_ >= 8; count_ -= 8) {
      bytes_ += static_cast<char>(waiting_ >> (count_ - 8) & 0xff);
    }
    waiting_ &= (1u << count_) - 1;
  }
  std::string finish() {
    if (count_ > 0) add(0, 8 - count_);
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
  uint32_t waiting_ = 0;
  int count_ = 0;  // bits that wait, below 8
};

// Differences modulo 2^bits, about 0, as numbers 0, 1, 2, 3 … for 0, -1, 1, …
std::vector<uint32_t> differences_of(const torch::Tensor& levels, int64_t order,
                                     int bits) {
  auto differences = levels;
  for (int64_t n = 0; n < order; ++n) {
    for (const int64_t axis : {1, 2}) {
      differences =
          torch::diff(differences, 1, axis,
                      torch::zeros_like(differences.slice(axis, 0, 1)));
    }
  }
  const auto flat = differences.contiguous();
  const int32_t* number = flat.data_ptr<int32_t>();
  const int32_t half = 1 << (bits - 1), mask = 2 * half - 1;
  std::vector<uint32_t> all(static_cast<size_t>(flat.numel()));
  for (size_t n = 0; n < all.size(); ++n) {
    const int32_t near_zero = ((number[n] + half) & mask) - half;
    all[n] = static_cast<uint32_t>(near_zero >= 0 ? 2 * near_zero
                                                  : -2 * near_zero - 1);
  }
  return all;
}

uint64_t bits_of(std::span<const uint32_t> row, int rate, int bits) {
  uint64_t sum = 0;
  for (const uint32_t z : row) {
    const uint32_t ones = z >> rate;
    sum += ones < kLongest ? ones + 1 + static_cast<uint32_t>(rate)
                           : kLongest + static_cast<uint32_t>(bits);
  }
  return sum;
}

void write_row(BitWriter& writer, std::span<const uint32_t> row, int bits) {
  int best = 0;
  auto least = std::numeric_limits<uint64_t>::max();
  for (int rate = 0; rate < bits; ++rate) {
    const auto sum = bits_of(row, rate, bits);
    if (sum < least) least = sum, best = rate;
  }
  writer.add(static_cast<uint32_t>(best), kRateBits);
  for (const uint32_t z : row) {
    const uint32_t ones = z >> best;
    if (ones < kLongest) {
      writer.add((1u << (ones + 1)) - 2, static_cast<int>(ones) + 1);
      writer.add(z & ((1u << best) - 1), best);
    } else {
      writer.add((1u << kLongest) - 1, static_cast<int>(kLongest));
      writer.add(z, bits);
    }
  }
}

}  // namespace

PackedLevels PackedLevels::of(const torch::Tensor& levels, int bits) {
  const auto numbers = levels.to(torch::kCPU, torch::kInt32);
  const auto columns = static_cast<size_t>(numbers.size(2));
  PackedLevels best{-1, ""};
  for (int64_t order = 0; order < kOrders; ++order) {
    const auto all = differences_of(numbers, order, bits);
    BitWriter writer;
    for (size_t at = 0; at < all.size(); at += columns) {
      write_row(writer, std::span(all).subspan(at, columns), bits);
    }
    auto bytes = writer.finish();
    if (best.order >= 0 && bytes.size() >= best.bytes.size()) continue;
    best = {order, std::move(bytes)};
  }
  return best;
}

}  // namespace propagator::report
