#pragma once

#include "propagator/kernels/jet/jet_cross_attention.cuh"
#include "propagator/kernels/mma_rows.cuh"
#include "propagator/kernels/warp.cuh"

// What the kernels of jet_cross_attention.cu are made of.
namespace propagator::kernels::cross {

using namespace mma_rows;

// Rows of a jet, the value, kFirst of x_1 and kSecond of x_2, of heads with
// kDepth channels.
template <int kFirst_, int kSecond_, int kDepth_>
struct Form {
  static constexpr int kFirst = kFirst_, kSecond = kSecond_, kDepth = kDepth_;
  static constexpr int kRows = 1 + kFirst + kSecond;
};

// The head of a block is blockIdx.y. Keys and values are taken as differences
// from those of the first token: what tokens have in common drops out of a
// softmax, of its derivatives and of their gradients, before it is rounded.
struct Job {
  JetCross of;
  float scale;
  // ±1 where the x_2 of direction r + 1 counts to row 1 + kFirst + n, else 0.
  float signs[3][3];

  __device__ int points() const { return static_cast<int>(of.points); }
  __device__ int stride() const { return static_cast<int>(of.width); }
  template <class Real>
  __device__ Real* of_head(Real* x) const {
    return x + blockIdx.y * of.depth;
  }
  // Row m of all points, (N, C).
  template <class Real>
  __device__ Real* of_points(Real* x, int m) const {
    return of_head(x) + m * of.points * of.width;
  }
  // What is kept for a point, of (N, H, M).
  template <class F, class Real>
  __device__ Real* of_point(Real* x, int point) const {
    return x + (int64_t{point} * gridDim.y + blockIdx.y) * F::kRows;
  }
};

__device__ inline float exp_fast(float x) {
  constexpr float kLog2E = 1.4426950408889634f;
  return exp2f(kLog2E * x);
}

// Σ ± x_r² over the directions that count to the n-th row of x_2.
template <class F, class X>
__device__ float sum_squares(const Job& job, int n, const X& x) {
  float sum = 0;
#pragma unroll
  for (int r = 1; r <= F::kFirst; ++r) {
    sum += job.signs[n][r - 1] * x(r) * x(r);
  }
  return sum;
}

// The jets of 16 points.
template <class F>
struct Factors {
  Factor<F::kDepth> at[F::kRows];

  template <bool kTf32>
  __device__ void load(const Job& job, const float* from, int first,
                       float scale) {
#pragma unroll
    for (int m = 0; m < F::kRows; ++m) {
      at[m] = load_factor<F::kDepth, false>(job.of_points(from, m),
                                            job.stride(), first, job.points());
#pragma unroll
      for (int i = 0; i < F::kDepth / 2; ++i) {
        float& x = at[m].at[i / 4][i % 4];
        x = stored<kTf32>(scale * x);
      }
    }
  }
};

// Of 16 rows with a group of 8: four pairs to a lane.
template <class F>
struct Scores {
  float at[F::kRows][1][4];

  template <bool kTf32>
  __device__ void add(const Factors<F>& rows, const float* group) {
#pragma unroll
    for (int m = 0; m < F::kRows; ++m) {
      add_scores<kTf32>(at[m], rows.at[m], group);
    }
  }
  __device__ void get(int i, float (&pair)[F::kRows]) const {
#pragma unroll
    for (int m = 0; m < F::kRows; ++m) pair[m] = at[m][0][i];
  }
  __device__ void put(int i, const float (&pair)[F::kRows]) {
#pragma unroll
    for (int m = 0; m < F::kRows; ++m) at[m][0][i] = pair[m];
  }
};

// Of queries with the keys from `token` on; those after the last weigh nothing.
template <bool kTf32, class F>
__device__ Scores<F> scores_of(const Job& job, const Factors<F>& query,
                               const float* keys, int token) {
  Scores<F> s = {};
  s.template add<kTf32>(query, keys);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (token + row_of(2 * lane_pair() + i % 2) >= job.of.tokens) {
      s.at[0][0][i] = -INFINITY;
    }
  }
  return s;
}

// t_m of scores s_m, in their place: t_1 = s_1 - c_1, t_2 = s_2 + Σ ± t_1² / 2
// - c_2; t_0, which would be 1, stays s_0.
template <class F>
__device__ void centre(const Job& job, const float (&c)[F::kRows],
                       float (&s)[F::kRows]) {
#pragma unroll
  for (int m = 1; m < F::kRows; ++m) s[m] -= c[m];
#pragma unroll
  for (int n = 0; n < F::kSecond; ++n) {
    s[1 + F::kFirst + n] +=
        0.5f * sum_squares<F>(job, n, [&](int r) { return s[r]; });
  }
}

template <class F>
struct Pair {
  float at[F::kRows];
};

// From the i-th of y_m, products of gradients with values, to the gradients by
// the scores, in their place; gives the weights w t_m. Both are rounded for the
// products that follow.
template <class F, bool kTf32>
__device__ Pair<F> weighted_slopes(const Job& job,
                                   const float (&kept)[F::kRows],
                                   const float (&taken)[F::kRows],
                                   const Scores<F>& scores, Scores<F>& slopes,
                                   int i) {
  float y[F::kRows];
  Pair<F> t;
  scores.get(i, t.at);
  slopes.get(i, y);
  const float w = exp_fast(t.at[0] - kept[0]);
  centre<F>(job, kept, t.at);
  t.at[0] = 1;
  float by_value = 0;
#pragma unroll
  for (int m = 0; m < F::kRows; ++m) {
    y[m] -= taken[m];
    by_value += t.at[m] * y[m];
  }
#pragma unroll
  for (int r = 1; r <= F::kFirst; ++r) {
#pragma unroll
    for (int n = 0; n < F::kSecond; ++n) {
      y[r] += job.signs[n][r - 1] * t.at[r] * y[1 + F::kFirst + n];
    }
  }
  y[0] = by_value;
#pragma unroll
  for (int m = 0; m < F::kRows; ++m) {
    y[m] = stored<kTf32>(w * y[m]);
    t.at[m] = stored<kTf32>(w * t.at[m]);
  }
  slopes.put(i, y);
  return t;
}

// Calls step(token, keys, values) for each group of 8 tokens of the head, both
// in shared memory.
template <class F, bool kTf32, class Step>
__device__ void for_token_groups(const Job& job, const Step& step) {
  __shared__ Tile<F::kDepth> keys[2], values[2];
  const float *k = job.of_head(job.of.k), *v = job.of_head(job.of.v);
  const int tokens = static_cast<int>(job.of.tokens);
  Chunk<F::kDepth, kTf32> key, value;
  const float4 k0 = key.part_of(k), v0 = value.part_of(v);
  for_each_chunk(
      0, tokens,
      [&](int first) {
        key.load(k, job.stride(), first, tokens);
        value.load(v, job.stride(), first, tokens);
      },
      [&](int buffer) {
        key.store(keys[buffer], k0);
        value.store(values[buffer], v0);
      },
      [&](int first, int buffer) {
#pragma unroll 1
        for (int n = 0; n < kChunk / 8 && first + 8 * n < tokens; ++n) {
          step(first + 8 * n, group<F::kDepth>(keys[buffer].at, n),
               group<F::kDepth>(values[buffer].at, n));
        }
      });
}

// A tile of points in shared memory: as many as 48 KB hold.
template <class F>
struct Points {
  static constexpr int kCount = F::kDepth == 16 ? kChunk : kChunk / 2;
  static constexpr int kStride = Tile<F::kDepth>::kStride;

  alignas(16) float queries[F::kRows][kCount * kStride];  // over √D
  alignas(16) float grads[F::kRows][kCount * kStride];
  float sums[kCount][F::kRows], taken[kCount][F::kRows];

  __device__ const float* queries_from(int m, int n) const {
    return queries[m] + n * kStride;
  }
  __device__ const float* grads_from(int m, int n) const {
    return grads[m] + n * kStride;
  }

  // Points from `end` on weigh nothing: log Σ exp is ∞.
  template <bool kTf32>
  __device__ void copy(const Job& job, const JetCrossBackward& with, int first,
                       int end) {
    constexpr int kPacks = F::kDepth / 4;
    for (int n = threadIdx.x; n < F::kRows * kCount * kPacks; n += kThreads) {
      const int m = n / (kCount * kPacks), i = n / kPacks % kCount;
      const int at = n % kPacks * 4;
      const int point = min(first + i, end - 1);
      const auto put = [&](const float* from, float scale, float* to) {
        auto four = load_pack<Pack<float>>(
            token(job.of_points(from, m), job.stride(), point) + at);
#pragma unroll
        for (int x = 0; x < 4; ++x) {
          four.at[x] = stored<kTf32>(scale * four.at[x]);
        }
        store_pack(four, to + i * kStride + at);
      };
      put(job.of.q, job.scale, queries[m]);
      put(with.grad, 1, grads[m]);
    }
    for (int n = threadIdx.x; n < kCount * F::kRows; n += kThreads) {
      const int i = n / F::kRows, m = n % F::kRows;
      const int point = min(first + i, end - 1);
      const bool hides = first + i >= end && m == 0;
      sums[i][m] = hides ? INFINITY : job.of_point<F>(with.sums, point)[m];
      taken[i][m] = job.of_point<F>(with.taken, point)[m];
    }
  }
};

}  // namespace propagator::kernels::cross
