#pragma once

#include <cstdint>
#include <cstring>

namespace propagator::kernels {

// The width of a vector register (GCC and Clang keep wider ones in memory).
#ifdef __AVX__
inline constexpr int64_t kVectorBytes = 32;
#else
inline constexpr int64_t kVectorBytes = 16;
#endif
// The widest there is, for what does not depend on how numbers are put into
// vectors, as sums over lanes do, and where products are most of the work.
#ifdef __AVX512F__
inline constexpr int64_t kWidestBytes = 64;
#else
inline constexpr int64_t kWidestBytes = kVectorBytes;
#endif

// Partial sums side by side in 64 bytes of vector registers, or two of them,
// added in a fixed order.
template <class Real, int64_t kBytes = kVectorBytes>
struct Lanes {
  static constexpr int64_t kVectors = kBytes < 32 ? 64 / kBytes : 2;
  static constexpr int64_t kWidth = kBytes / sizeof(Real);
  static constexpr int64_t kCount = kVectors * kWidth;
  typedef Real Vector __attribute__((vector_size(kBytes)));

  Vector value[kVectors] = {};

  static Vector load(const Real* from) {
    Vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  static void store(const Vector& v, Real* to) {
    std::memcpy(to, &v, sizeof v);
  }
  static Real sum(const Vector& v) {
    Real total = 0;
    for (int64_t l = 0; l < kWidth; ++l) total += v[l];
    return total;
  }

  // Adds a[l], or a[l] · b[l], in lane l.
  void add(const Real* a) {
    for (int64_t n = 0; n < kVectors; ++n) value[n] += load(a + n * kWidth);
  }
  void add_product(const Real* a, const Real* b) {
    for (int64_t n = 0; n < kVectors; ++n) {
      value[n] += load(a + n * kWidth) * load(b + n * kWidth);
    }
  }
  Real sum() const {
    Vector all = value[0];
    for (int64_t n = 1; n < kVectors; ++n) all += value[n];
    return sum(all);
  }
};

}  // namespace propagator::kernels
