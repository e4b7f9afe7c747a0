#pragma once

#include <algorithm>
#include <cstdint>

#include "propagator/kernels/lanes.h"

namespace propagator::kernels {

// c = start + a b for matrices so small that a product library spends its time
// on packing them: (rows × inner) times (inner × columns), columns being whole
// vectors. Number (i, k) of a is at a[i a_row + k a_step], so that a may be a
// transpose; rows of b and c are contiguous. Sums of a tile stay in registers.
template <class Real, int64_t kBytes = kVectorBytes>
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

  using L = Lanes<Real, kBytes>;
  using Vector = typename L::Vector;
  static constexpr int64_t kWidth = L::kWidth;
  static constexpr int64_t kMostVectors = L::kVectors;

  void run() const {
    for (int64_t j = 0; j < columns; j += kMostVectors * kWidth) {
      panel<kMostVectors>(j, std::min(kMostVectors, (columns - j) / kWidth));
    }
  }

 private:
  // Columns from j on, of tiles whose size the compiler knows.
  template <int64_t kVectors>
  void panel(int64_t j, int64_t vectors) const {
    if (vectors < kVectors) {
      if constexpr (kVectors > 1) panel<kVectors - 1>(j, vectors);
      return;
    }
    // More of them would not stay in the registers.
    constexpr int64_t kMostRows = kVectors > 2 ? 4 : 6;
    for (int64_t i = 0; i < rows; i += kMostRows) {
      tiles<kMostRows, kVectors>(i, j, std::min(kMostRows, rows - i));
    }
  }
  template <int64_t kRows, int64_t kVectors>
  void tiles(int64_t i, int64_t j, int64_t count) const {
    if (count == kRows) return tile<kRows, kVectors>(i, j);
    if constexpr (kRows > 1) tiles<kRows - 1, kVectors>(i, j, count);
  }

  template <int64_t kRows, int64_t kVectors>
  void tile(int64_t i, int64_t j) const {
    Vector sum[kRows][kVectors] = {};
    if (start != nullptr) {
      for (int64_t r = 0; r < kRows; ++r) {
        const Real* from = start + (i + r) * start_row + j;
        for (int64_t v = 0; v < kVectors; ++v) {
          sum[r][v] = L::load(from + v * kWidth);
        }
      }
    }
    const Real *x = a + i * a_row, *y = b + j;
    for (int64_t k = 0; k < inner; ++k, x += a_step, y += b_row) {
      Vector row[kVectors];
      for (int64_t v = 0; v < kVectors; ++v) {
        row[v] = L::load(y + v * kWidth);
      }
      for (int64_t r = 0; r < kRows; ++r) {
        const Real factor = x[r * a_row];
        for (int64_t v = 0; v < kVectors; ++v) sum[r][v] += factor * row[v];
      }
    }
    for (int64_t r = 0; r < kRows; ++r) {
      Real* to = c + (i + r) * c_row + j;
      for (int64_t v = 0; v < kVectors; ++v) {
        L::store(sum[r][v], to + v * kWidth);
      }
    }
  }
};

}  // namespace propagator::kernels
