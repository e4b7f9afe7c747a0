#include "propagator/core/sha256.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace propagator {
namespace {

// The standard's constants are the first 32 bits of the fractional parts of
// square roots (initial state) and cube roots (rounds) of the first primes.
struct Constants {
  std::array<uint32_t, 8> state;
  std::array<uint32_t, 64> round;

  Constants() {
    int prime = 1;
    for (size_t i = 0; i < round.size(); ++i) {
      do ++prime;
      while (!is_prime(prime));
      if (i < state.size()) state[i] = fraction(std::sqrt((long double)prime));
      round[i] = fraction(std::cbrt((long double)prime));
    }
  }

  static bool is_prime(int n) {
    for (int d = 2; d * d <= n; ++d) {
      if (n % d == 0) return false;
    }
    return true;
  }
  static uint32_t fraction(long double x) {
    return static_cast<uint32_t>((x - std::floor(x)) * 4294967296.0L);
  }
};

void compress(std::array<uint32_t, 8>& state, const unsigned char* block,
              const std::array<uint32_t, 64>& k) {
  std::array<uint32_t, 64> w;
  for (int i = 0; i < 16; ++i) {
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 |
           uint32_t{block[4 * i + 2]} << 8 | uint32_t{block[4 * i + 3]};
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 =
        std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 =
        std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + k[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<uint32_t, 8> sum{a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += sum[i];
}

}  // namespace

std::string sha256(std::string_view bytes) {
  static const Constants constants;
  auto state = constants.state;
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t left = bytes.size();
  for (; left >= 64; left -= 64, data += 64) {
    compress(state, data, constants.round);
  }
  // The last one or two blocks: the rest, a one bit, zeros, the bit count.
  std::array<unsigned char, 128> tail{};
  if (left > 0) std::memcpy(tail.data(), data, left);
  tail[left] = 0x80;
  const size_t size = left < 56 ? 64 : 128;
  const uint64_t bits = uint64_t{bytes.size()} * 8;
  for (size_t i = 0; i < 8; ++i) {
    tail[size - 1 - i] = static_cast<unsigned char>(bits >> (8 * i));
  }
  for (size_t at = 0; at < size; at += 64) {
    compress(state, tail.data() + at, constants.round);
  }
  std::string text;
  for (const uint32_t word : state) text += fmt::format("{:08x}", word);
  return text;
}

}  // namespace propagator
