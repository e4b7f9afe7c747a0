#pragma once

#include <algorithm>
#include <cstdint>

#include "propagator/kernels/tile_product.h"

namespace propagator::kernels {

// y = x Wᵀ + bias of W (out, in), x (rows, in) → (rows, out), for a few hundred
// small rows on one thread. `in` and `out` are whole vectors.
template <class Real>
struct LinearRows {
  int64_t rows, in, out;

  // `transposed` is room for Wᵀ, (in, out).
  void forward(const Real* x, const Real* weight, const Real* bias,
               Real* transposed, Real* y) const {
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i)
        transposed[i * out + o] = weight[o * in + i];
    }
    TileProduct<Real>{.rows = rows,
                      .inner = in,
                      .columns = out,
                      .a = x,
                      .a_row = in,
                      .b = transposed,
                      .b_row = out,
                      .c = y,
                      .c_row = out,
                      .start = bias}
        .run();
  }

  // dx = start + dy W; start (rows, in) or nullptr.
  void backward(const Real* dy, const Real* weight, const Real* start,
                Real* dx) const {
    TileProduct<Real>{.rows = rows,
                      .inner = out,
                      .columns = in,
                      .a = dy,
                      .a_row = out,
                      .b = weight,
                      .b_row = in,
                      .c = dx,
                      .c_row = in,
                      .start = start,
                      .start_row = in}
        .run();
  }

  // Adds dyᵀ x and the sum of the rows of dy, a few rows at a time, which stay
  // in the first cache. A null gradient is not wanted.
  void add_gradients(const Real* dy, const Real* x, Real* d_weight,
                     Real* d_bias) const {
    constexpr int64_t kAtOnce = 48;
    for (int64_t r = 0; r < rows; r += kAtOnce) {
      const int64_t here = std::min(kAtOnce, rows - r);
      if (d_weight != nullptr) {
        TileProduct<Real>{.rows = out,
                          .inner = here,
                          .columns = in,
                          .a = dy + r * out,
                          .a_row = 1,
                          .a_step = out,
                          .b = x + r * in,
                          .b_row = in,
                          .c = d_weight,
                          .c_row = in,
                          .start = d_weight,
                          .start_row = in}
            .run();
      }
      if (d_bias == nullptr) continue;
      for (int64_t k = r; k < r + here; ++k) {
        for (int64_t o = 0; o < out; ++o) d_bias[o] += dy[k * out + o];
      }
    }
  }
};

}  // namespace propagator::kernels
