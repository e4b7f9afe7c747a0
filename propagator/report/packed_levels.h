#pragma once

#include <torch/types.h>

#include <string>

namespace propagator::report {

// Whole numbers 0 … 2^bits - 1 in few bytes, if they change smoothly along rows
// and columns; page.js reads them. Differences of `order` along both, modulo
// 2^bits, are written row by row as Rice codes, most significant bit first:
//   4 bits k, then for each number z = 0, 1, 2, 3 … for 0, -1, 1, -2 …
//   z >> k ones, a zero and the k low bits of z; or, where that would be 20
//   ones or more, 20 ones and z in `bits` bits.
struct PackedLevels {
  int64_t order;  // 0, 1 or 2: what takes least room
  std::string bytes;

  // Of levels (T, R, C); `bits` from 1 to 16.
  static PackedLevels of(const torch::Tensor& levels, int bits);
};

}  // namespace propagator::report
