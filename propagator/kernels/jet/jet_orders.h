#pragma once

#include <cstdint>

// For what the CPU's kernels and CUDA's share.
#ifdef __CUDACC__
#define PROPAGATOR_HOST_DEVICE __host__ __device__
#else
#define PROPAGATOR_HOST_DEVICE
#endif

namespace propagator::kernels {

// Directions whose x_2 one row can sum.
inline constexpr int64_t kMostSummed = 32;

// The rows (M, …) of a jet (autodiff/jet.h) of order 2 at most: x_0, then x_1
// of `first` directions, then x_2 of the first `second` of them; or, if
// `summed`, one row that is the sum of those x_2, each with a sign.
struct JetOrders {
  int64_t first = 0, second = 0;
  bool summed = false;
  uint32_t minus = 0;  // bit r - 1: direction r = 1, 2, … has a minus

  PROPAGATOR_HOST_DEVICE int64_t rows() const {
    return 1 + first + (summed ? 1 : second);
  }
  // The row that has the x_2 of direction r, whose x_1 is row r; 0: none.
  PROPAGATOR_HOST_DEVICE int64_t second_row(int64_t r) const {
    return r > second ? 0 : first + (summed ? 1 : r);
  }
  // Whether r is the first direction, or the last, that counts towards it.
  PROPAGATOR_HOST_DEVICE bool opens(int64_t r) const {
    return !summed || r == 1;
  }
  PROPAGATOR_HOST_DEVICE bool closes(int64_t r) const {
    return !summed || r == second;
  }
  PROPAGATOR_HOST_DEVICE int sign(int64_t r) const {
    return summed && (minus >> (r - 1) & 1) ? -1 : 1;
  }

  // All of it in one number, for autograd to keep.
  int64_t packed() const {
    return first | second << 15 | int64_t{summed} << 30 | int64_t{minus} << 31;
  }
  static JetOrders unpacked(int64_t all) {
    constexpr int64_t kCount = (1 << 15) - 1;
    return {all & kCount, all >> 15 & kCount, (all >> 30 & 1) != 0,
            static_cast<uint32_t>(all >> 31)};
  }
};

// A product of jets sums ±x_a y_b over the pairs of rows that count towards a
// row: `work(a, b, row, sign)` for each. Beside 0·0 to 0 there are, along each
// direction, 0·1 + 1·0 to its x_1 and 0·2 + 1·1 + 2·0 to its x_2; where that
// is a sum over directions, 0·2 + 2·0 count once.
template <class Work>
void for_products(const JetOrders& o, Work&& work) {
  work(0, 0, 0, 1);
  for (int64_t r = 1; r <= o.first; ++r) {
    work(0, r, r, 1);
    work(r, 0, r, 1);
    const int64_t x2 = o.second_row(r);
    if (x2 == 0) continue;
    work(r, r, x2, o.sign(r));
    if (!o.opens(r)) continue;
    work(0, x2, x2, 1);
    work(x2, 0, x2, 1);
  }
}

}  // namespace propagator::kernels
