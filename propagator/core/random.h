#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace propagator {

// Philox4x32-10: a bijection of a 128-bit counter under a 64-bit key. Every
// number is a function of (key, counter), so the order of evaluation, the
// number of threads or ranks, and other draws never change it.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key);

// The same of many counters at once, word by word, at a fifth of the cost.
inline constexpr int64_t kPhiloxLanes = 16;
using PhiloxLanes = std::array<std::array<uint32_t, kPhiloxLanes>, 4>;
void philox(PhiloxLanes& counters, std::array<uint32_t, 2> key);

// A named stream of random numbers: "data", "init/...", "batches", "dropout",
// "noise". The name and the seed make the key; `row` and `index` the counter.
// Nothing is stored, so there is no state to save.
class RandomStream {
 public:
  RandomStream(int64_t seed, std::string_view name);

  // Number `index` of row `row`, uniform on [0, 1) with 53 random bits.
  double uniform(int64_t row, int64_t index) const;
  // Numbers [begin, begin + values.size()) of row `row`, at half the cost.
  void fill(int64_t row, int64_t begin, std::span<double> values) const;
  // A whole number in [0, n).
  int64_t below(int64_t n, int64_t row, int64_t index) const;

  // A tensor of uniform numbers on [low, high), row-major in row 0.
  torch::Tensor uniform(torch::IntArrayRef shape, double low, double high,
                        torch::ScalarType dtype) const;
  // A tensor of normal numbers, mean 0 and variance 1 (Box-Muller transform).
  torch::Tensor normal(torch::IntArrayRef shape) const;
  // A permutation of 0 … n-1 that depends on `row` alone (Fisher–Yates).
  std::vector<int64_t> permutation(int64_t n, int64_t row) const;

 private:
  // Numbers 2·block and 2·block + 1 of a row.
  std::array<double, 2> pair(int64_t row, int64_t block) const;

  std::array<uint32_t, 2> key_;
};

}  // namespace propagator
