#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "propagator/kernels/lanes.h"

namespace propagator::kernels {

// c = start + a b for matrices so small that a product library spends its time
// on packing them: (rows × inner) times (inner × columns), columns being whole
// vectors. Number (i, k) of a is at a[i a_row + k a_step], so that a may be a
// transpose; rows of b and c are contiguous. Sums of a tile stay in registers.
template <class Real>
struct TileProduct {
  int64_t rows, inner, columns;
  const Real* a;
  int64_t a_row, a_step = 1;
  const Real* b;
  int64_t b_row;
  Real* c;
  int64_t c_row;
  const Real* start = nullptr;  // (rows × columns), or nullptr: zeros
  int64_t start_row = 0;        // 0: the same row, as a bias, everywhere

  static constexpr int64_t kWidth = Lanes<Real>::kWidth;

  void run() const {
    int64_t j = 0;
    if constexpr (kWidestBytes > kVectorBytes) {
      // Twice as many registers of twice the width.
      constexpr int64_t kColumns = 2 * kWidestBytes / sizeof(Real);
      for (; j + kColumns <= columns; j += kColumns) {
        panel<kWidestBytes, 10, 2>(j);
      }
    }
    narrow<64 / kVectorBytes>(j);
  }

 private:
  template <int64_t kVectors>
  void narrow(int64_t j) const {
    for (; j + kVectors * kWidth <= columns; j += kVectors * kWidth) {
      panel<kVectorBytes, (kVectors > 2 ? 4 : 6), kVectors>(j);
    }
    if constexpr (kVectors > 1) narrow<kVectors - 1>(j);
  }
  // Columns from j on, of tiles whose size the compiler knows: more rows would
  // not stay in the registers.
  template <int64_t kBytes, int64_t kMostRows, int64_t kVectors>
  void panel(int64_t j) const {
    for (int64_t i = 0; i < rows; i += kMostRows) {
      tiles<kBytes, kMostRows, kVectors>(i, j, std::min(kMostRows, rows - i));
    }
  }
  template <int64_t kBytes, int64_t kRows, int64_t kVectors>
  void tiles(int64_t i, int64_t j, int64_t count) const {
    if (count == kRows) return tile<kBytes, kRows, kVectors>(i, j);
    if constexpr (kRows > 1) tiles<kBytes, kRows - 1, kVectors>(i, j, count);
  }

  template <int64_t kBytes, int64_t kRows, int64_t kVectors>
  void tile(int64_t i, int64_t j) const {
    typedef Real Vector __attribute__((vector_size(kBytes)));
    constexpr int64_t kHere = kBytes / static_cast<int64_t>(sizeof(Real));
    Vector sum[kRows][kVectors] = {};
    if (start != nullptr) {
      for (int64_t r = 0; r < kRows; ++r) {
        const Real* from = start + (i + r) * start_row + j;
        for (int64_t v = 0; v < kVectors; ++v) {
          std::memcpy(&sum[r][v], from + v * kHere, kBytes);
        }
      }
    }
    const Real *x = a + i * a_row, *y = b + j;
    for (int64_t k = 0; k < inner; ++k, x += a_step, y += b_row) {
      Vector row[kVectors];
      for (int64_t v = 0; v < kVectors; ++v) {
        std::memcpy(&row[v], y + v * kHere, kBytes);
      }
      for (int64_t r = 0; r < kRows; ++r) {
        const Real factor = x[r * a_row];
        for (int64_t v = 0; v < kVectors; ++v) sum[r][v] += factor * row[v];
      }
    }
    for (int64_t r = 0; r < kRows; ++r) {
      Real* to = c + (i + r) * c_row + j;
      for (int64_t v = 0; v < kVectors; ++v) {
        std::memcpy(to + v * kHere, &sum[r][v], kBytes);
      }
    }
  }
};

}  // namespace propagator::kernels
