#pragma once

#include <cstdint>

// For what the CPU's kernels and CUDA's share.
#ifdef __CUDACC__
#define PROPAGATOR_HOST_DEVICE __host__ __device__
#else
#define PROPAGATOR_HOST_DEVICE
#endif

namespace propagator::kernels {

// The rows (M, …) of a jet (autodiff/jet.h) of order 2 at most: x_0, then x_1
// of `first` directions, then x_2 of the first `second` of them.
struct JetOrders {
  int64_t first = 0, second = 0;

  PROPAGATOR_HOST_DEVICE int64_t rows() const { return 1 + first + second; }
  // The row of x_2 of direction r = 1, 2, …, whose x_1 is row r; 0: it has
  // none.
  PROPAGATOR_HOST_DEVICE int64_t second_row(int64_t r) const {
    return r <= second ? first + r : 0;
  }
};

// A product of jets sums x_a y_b over the pairs of rows that count towards a
// row: `work(a, b, row)` for each. Beside 0·0 to 0 there are, along each
// direction, 0·1 + 1·0 to its x_1 and 0·2 + 1·1 + 2·0 to its x_2.
template <class Work>
PROPAGATOR_HOST_DEVICE void for_products_along(int64_t x1, int64_t x2,
                                               Work&& work) {
  work(0, x1, x1);
  work(x1, 0, x1);
  if (x2 == 0) return;
  work(0, x2, x2);
  work(x1, x1, x2);
  work(x2, 0, x2);
}

template <class Work>
void for_products(const JetOrders& o, Work&& work) {
  work(0, 0, 0);
  for (int64_t r = 1; r <= o.first; ++r) {
    for_products_along(r, o.second_row(r), work);
  }
}

}  // namespace propagator::kernels
