#include "propagator/core/random.h"

#include <ATen/Parallel.h>

#include <numbers>
#include <numeric>

namespace propagator {
namespace {

// FNV-1a, then the finaliser of SplitMix64: names that differ in one letter
// give unrelated keys.
uint64_t hash_name(uint64_t seed, std::string_view name) {
  uint64_t h = 14695981039346656037ull ^ seed;
  for (const char c : name) {
    h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  }
  h += 0x9e3779b97f4a7c15ull * (seed + 1);
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
  return h ^ (h >> 31);
}

constexpr int kRounds = 10;

void philox_round(uint32_t& c0, uint32_t& c1, uint32_t& c2, uint32_t& c3,
                  const std::array<uint32_t, 2>& key) {
  const uint64_t p0 = uint64_t{0xD2511F53} * c0;
  const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
  c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ key[0];
  c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ key[1];
  c1 = static_cast<uint32_t>(p1);
  c3 = static_cast<uint32_t>(p0);
}

void next_key(std::array<uint32_t, 2>& key) {
  key[0] += 0x9E3779B9;
  key[1] += 0xBB67AE85;
}

// 53 bits of two words as a double on [0, 1).
double to_unit(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key) {
  auto [c0, c1, c2, c3] = counter;
  for (int round = 0; round < kRounds; ++round) {
    philox_round(c0, c1, c2, c3, key);
    next_key(key);
  }
  return {c0, c1, c2, c3};
}

void philox(PhiloxLanes& counters, std::array<uint32_t, 2> key) {
  auto& [c0, c1, c2, c3] = counters;
  for (int round = 0; round < kRounds; ++round) {
    for (int64_t l = 0; l < kPhiloxLanes; ++l) {
      philox_round(c0[l], c1[l], c2[l], c3[l], key);
    }
    next_key(key);
  }
}

RandomStream::RandomStream(int64_t seed, std::string_view name) {
  const uint64_t key = hash_name(static_cast<uint64_t>(seed), name);
  key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

std::array<double, 2> RandomStream::pair(int64_t row, int64_t block) const {
  const auto r = static_cast<uint64_t>(row);
  const auto i = static_cast<uint64_t>(block);
  const auto words =
      philox({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32),
              static_cast<uint32_t>(r), static_cast<uint32_t>(r >> 32)},
             key_);
  return {to_unit(words[0], words[1]), to_unit(words[2], words[3])};
}

double RandomStream::uniform(int64_t row, int64_t index) const {
  return pair(row, index / 2)[index % 2];
}

void RandomStream::fill(int64_t row, int64_t begin,
                        std::span<double> values) const {
  const auto count = static_cast<int64_t>(values.size());
  int64_t k = 0;
  if (count > 0 && begin % 2 == 1) values[k++] = uniform(row, begin);
  for (; k + 1 < count; k += 2) {
    const auto two = pair(row, (begin + k) / 2);
    values[k] = two[0];
    values[k + 1] = two[1];
  }
  if (k < count) values[k] = uniform(row, begin + k);
}

int64_t RandomStream::below(int64_t n, int64_t row, int64_t index) const {
  return static_cast<int64_t>(uniform(row, index) * static_cast<double>(n));
}

torch::Tensor RandomStream::uniform(torch::IntArrayRef shape, double low,
                                    double high,
                                    torch::ScalarType dtype) const {
  auto values = torch::empty(shape, torch::kFloat64);
  auto* data = values.data_ptr<double>();
  at::parallel_for(0, values.numel(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      data[i] = low + (high - low) * uniform(0, i);
    }
  });
  return values.to(dtype);
}

torch::Tensor RandomStream::normal(torch::IntArrayRef shape) const {
  auto pairs = shape.vec();
  pairs.insert(pairs.begin(), 2);
  const auto u = uniform(pairs, 0, 1, torch::kFloat64);
  return torch::sqrt(-2 * torch::log1p(-u[0])) *
         torch::cos(2 * std::numbers::pi * u[1]);
}

std::vector<int64_t> RandomStream::permutation(int64_t n, int64_t row) const {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = n - 1; i > 0; --i) {
    std::swap(order[i], order[below(i + 1, row, i)]);
  }
  return order;
}

}  // namespace propagator
