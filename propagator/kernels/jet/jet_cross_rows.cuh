#pragma once

#include "propagator/kernels/jet/jet_cross_attention.cuh"
#include "propagator/kernels/warp.cuh"

// What the kernels of jet_cross_attention.cu are made of. A point, or a token,
// has kLanes threads, each with kPart channels of its head in registers.
namespace propagator::kernels::cross {

inline constexpr int kThreads = 128;
inline constexpr int kPart = 8;     // channels of a thread
inline constexpr int kTokens = 64;  // of a tile in shared memory

// Rows of a jet: the value, kFirst rows of x_1, kSecond of x_2.
template <int kFirst_, int kSecond_, int kLanes_>
struct Form {
  static constexpr int kFirst = kFirst_, kSecond = kSecond_, kLanes = kLanes_;
  static constexpr int kRows = 1 + kFirst + kSecond;
  static constexpr int kDepth = kPart * kLanes;
};

struct Job {
  JetCross of;
  float scale;
  // ±1 where the x_2 of direction r + 1 counts to row 1 + kFirst + n, else 0.
  float signs[3][3];
};

// Over the lanes of a point, which all get the same bits.
template <int kLanes>
__device__ float lanes_sum(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    x += __shfl_xor_sync(kWholeWarp, x, step);
  }
  return x;
}

__device__ inline void read_part(const float* from, float (&to)[kPart]) {
#pragma unroll
  for (int c = 0; c < kPart; c += 4) {
    const auto four = load_pack<Pack<float>>(from + c);
#pragma unroll
    for (int i = 0; i < 4; ++i) to[c + i] = four.at[i];
  }
}

__device__ inline void write_part(const float (&from)[kPart], float* to) {
#pragma unroll
  for (int c = 0; c < kPart; c += 4) {
    store_pack(Pack<float>{{from[c], from[c + 1], from[c + 2], from[c + 3]}},
               to + c);
  }
}

__device__ inline float dot(const float (&a)[kPart], const float (&b)[kPart]) {
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kPart; ++c) sum += a[c] * b[c];
  return sum;
}

__device__ inline void add(float factor, const float (&x)[kPart],
                           float (&y)[kPart]) {
#pragma unroll
  for (int c = 0; c < kPart; ++c) y[c] += factor * x[c];
}

// A thread's channels of all rows of a jet.
template <class F>
struct Rows {
  float at[F::kRows][kPart];

  __device__ void read(const float* from, int64_t row, float factor) {
#pragma unroll
    for (int m = 0; m < F::kRows; ++m) {
      read_part(from + m * row, at[m]);
#pragma unroll
      for (int c = 0; c < kPart; ++c) at[m][c] *= factor;
    }
  }
  __device__ void write(float* to, int64_t row) const {
#pragma unroll
    for (int m = 0; m < F::kRows; ++m) write_part(at[m], to + m * row);
  }
  // Products with a token's channels, of the whole head.
  __device__ void meet(const float (&token)[kPart],
                       float (&to)[F::kRows]) const {
#pragma unroll
    for (int m = 0; m < F::kRows; ++m) {
      to[m] = lanes_sum<F::kLanes>(dot(at[m], token));
    }
  }
};

// t_m of scores s_m, in their place: t_1 = s_1 - c_1, t_2 = s_2 + Σ ± t_1² / 2
// - c_2; t_0, which would be 1, stays s_0.
template <class F>
__device__ void centre(const Job& job, const float (&c)[F::kRows],
                       float (&s)[F::kRows]) {
#pragma unroll
  for (int m = 1; m < F::kRows; ++m) s[m] -= c[m];
#pragma unroll
  for (int n = 0; n < F::kSecond; ++n) {
    float sum = 0;
#pragma unroll
    for (int r = 1; r <= F::kFirst; ++r) {
      sum += job.signs[n][r - 1] * s[r] * s[r];
    }
    s[1 + F::kFirst + n] += 0.5f * sum;
  }
}

// From y_m, gradients by w t_m, to those by the scores.
template <class F>
__device__ void slopes(const Job& job, float w, const float (&t)[F::kRows],
                       float (&y)[F::kRows]) {
  float by_value = y[0];
#pragma unroll
  for (int m = 1; m < F::kRows; ++m) by_value += t[m] * y[m];
#pragma unroll
  for (int r = 0; r < F::kFirst; ++r) {
    float more = 0;
#pragma unroll
    for (int n = 0; n < F::kSecond; ++n) {
      more += job.signs[n][r] * y[1 + F::kFirst + n];
    }
    y[1 + r] = w * (y[1 + r] + t[1 + r] * more);
  }
#pragma unroll
  for (int n = 0; n < F::kSecond; ++n) y[1 + F::kFirst + n] *= w;
  y[0] = w * by_value;
}

// Where a thread is: its point (or token), its first channel in a row of C.
template <class F>
struct Seat {
  int64_t at, all;
  int64_t channel;
  int part;

  __device__ explicit Seat(int64_t count) : all(count) {
    part = static_cast<int>(threadIdx.x) % F::kLanes;
    at = int64_t{blockIdx.x} * (kThreads / F::kLanes) + threadIdx.x / F::kLanes;
    channel = int64_t{blockIdx.y} * F::kDepth + part * kPart;
  }
  __device__ bool is_there() const { return at < all; }
  // One that can be read in any case.
  __device__ int64_t safe() const { return min(at, all - 1); }
  __device__ bool leads() const { return part == 0; }
};

// Copies tokens first … of a head, or zeros after the last.
template <class F>
__device__ void copy_tokens(const Job& job, const float* from, int64_t first,
                            float (&to)[kTokens][F::kDepth]) {
  constexpr int kPacks = F::kDepth / 4;
  for (int n = threadIdx.x; n < kTokens * kPacks; n += kThreads) {
    const int64_t token = first + n / kPacks;
    const int c = n % kPacks * 4;
    Pack<float> four{};
    if (token < job.of.tokens) {
      four = load_pack<Pack<float>>(from + token * job.of.width +
                                    int64_t{blockIdx.y} * F::kDepth + c);
    }
    store_pack(four, &to[n / kPacks][c]);
  }
}

// Calls work(key, value), a thread's channels of both, for every token of the
// head.
template <class F, class Work>
__device__ void for_tokens(const Job& job, const Seat<F>& seat,
                           const Work& work) {
  __shared__ __align__(16) float keys[kTokens][F::kDepth];
  __shared__ __align__(16) float values[kTokens][F::kDepth];
  for (int64_t first = 0; first < job.of.tokens; first += kTokens) {
    __syncthreads();
    copy_tokens<F>(job, job.of.k, first, keys);
    copy_tokens<F>(job, job.of.v, first, values);
    __syncthreads();
    const int count =
        static_cast<int>(min(int64_t{kTokens}, job.of.tokens - first));
    for (int j = 0; j < count; ++j) {
      float key[kPart], value[kPart];
      read_part(&keys[j][seat.part * kPart], key);
      read_part(&values[j][seat.part * kPart], value);
      work(key, value);
    }
  }
}

}  // namespace propagator::kernels::cross
