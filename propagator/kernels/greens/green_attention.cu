#include "propagator/kernels/greens/green_attention.cuh"

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "propagator/kernels/mma_rows.cuh"
#include "propagator/kernels/warp.cuh"

namespace propagator::kernels {
namespace {

using namespace mma_rows;

constexpr float kLog2E = 1.4426950408889634f;

// Blocks that should fit on one multiprocessor: this bounds the registers.
template <int kDepth, bool kTf32>
constexpr int kBlocks = kDepth == 64 || (kDepth == 32 && !kTf32) ? 2 : 3;

// Groups of 8 rows that a step takes: as many as fit into registers.
template <int kDepth, bool kTf32>
constexpr int kForwardGroups = kDepth == 64 && !kTf32 ? 2 : 4;
template <int kDepth, bool kTf32>
constexpr int kBackwardGroups = kDepth == 64 && !kTf32 ? 1 : 2;

struct DeviceMath {
  static __device__ float log(float x) { return __logf(x); }
  static __device__ float sqrt(float x) { return sqrtf(x); }
  static __device__ float divide(float a, float b) { return __fdividef(a, b); }
  static __device__ float infinity() { return INFINITY; }
  static __device__ float pick(bool which, float a, float b) {
    return which ? a : b;
  }
};
using Formula = Green<float, DeviceMath>;
using Place = GreenPlace<float>;

// Keys and values are taken as differences from those of the first one. A
// softmax does not move when all keys do, nor its gradient when all values do;
// so what tokens have in common drops out before it is rounded.
struct Problem {
  int heads, queries, keys, query_length, key_length;
  float scale, scale2;  // 1/√D, and log2(e)/√D for exp2
  bool learns;
  GreenSettings green;
  const float *q, *k, *v, *query_places, *key_places, *parameters;

  template <class Real>
  __device__ Real* of_queries(Real* x, int width) const {
    return x + static_cast<int64_t>(blockIdx.x) * queries * width;
  }
  template <class Real>
  __device__ Real* of_keys(Real* x, int width) const {
    return x + static_cast<int64_t>(blockIdx.x) * keys * width;
  }
  __device__ Place query_place(int i) const {
    return place(query_places, query_length, i);
  }
  __device__ Place key_place(int j) const {
    return place(key_places, key_length, j);
  }

  // Tokens are in the order of their times: the queries before `end` see no key
  // from keys_seen(end) on, and the keys from `key` on are seen by no query
  // before first_query(key). What is hidden comes last.
  __device__ int keys_seen(int end) const {
    if (!is_causal(green.form)) return keys;
    const float last = query_place(min(end, queries) - 1).t;
    return count(key_places, key_length, keys,
                 [&](float t) { return t <= last; });
  }
  __device__ int first_query(int key) const {
    if (!is_causal(green.form)) return 0;
    const float first = key_place(key).t;
    if (first != first) return queries;
    return count(query_places, query_length, queries,
                 [&](float t) { return t < first; });
  }

 private:
  // Behind the last place there is nobody.
  __device__ Place place(const float* places, int length, int i) const {
    if (i >= length) return {0, 0, 0, NAN};
    const float* at = places + offset(length) + i;
    return {at[0], at[length], at[2 * length], at[3 * length]};
  }
  __device__ int64_t offset(int length) const {
    return static_cast<int64_t>(blockIdx.x / heads) * 4 * length;
  }

  // How many times come before the first one that is not as asked.
  template <class Test>
  __device__ int count(const float* places, int length, int tokens,
                       Test test) const {
    const float* times = places + offset(length) + 3 * length;
    int low = 0, high = tokens;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (test(times[middle])) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

__device__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The column c of a group of scores that this lane holds.
__device__ int column_row(int g, int c) {
  return 8 * g + row_of(2 * lane_pair() + c);
}

// Scores, in powers of 2, get their logits. Rows are the lane's own places,
// columns those in shared memory; queries are the rows, or with kByKey the
// columns.
template <bool kByKey, int kGroups>
__device__ void add_logits(float (&score)[kGroups][4], const Place (&rows)[2],
                           const Place* columns, const Formula& formula,
                           const Problem& p) {
  with_form(p.green.form, [&](auto form) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const Place column = columns[column_row(g, c)];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float logit = formula.template logit<decltype(form)::value>(
              kByKey ? column : rows[half], kByKey ? rows[half] : column,
              p.green.full);
          float& s = score[g][2 * half + c];
          s = fmaf(s, p.scale2, kLog2E * logit);
        }
      }
    }
  });
}

// Adds the sums of slope · ∂Γ/∂(parameters).
template <int kGroups>
__device__ void add_parameter_slopes(const float (&slope)[kGroups][4],
                                     const Place (&rows)[2],
                                     const Place* columns,
                                     const Formula& formula, const Problem& p,
                                     float (&sum)[kGreenParameters]) {
  const auto add = [&](auto form) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const Place column = columns[column_row(g, c)];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const auto by = formula.template slopes<decltype(form)::value>(
              rows[half], column, p.green.full);
          const float s = slope[g][2 * half + c];
          sum[0] = fmaf(s, by.t, sum[0]);
          sum[1] = fmaf(s, by.x, sum[1]);
          sum[2] = fmaf(s, by.y, sum[2]);
          sum[3] = fmaf(s, by.z, sum[3]);
        }
      }
    }
  };
  switch (p.green.form) {
    case GreenForm::kHeat:
      return add(GreenFormType<GreenForm::kHeat>{});
    case GreenForm::kWave1:
      return add(GreenFormType<GreenForm::kWave1>{});
    case GreenForm::kWave2:
      return add(GreenFormType<GreenForm::kWave2>{});
    case GreenForm::kWave3:
      return add(GreenFormType<GreenForm::kWave3>{});
    default:
      return;
  }
}

// Blocks begin in the order of their numbers, and the last queries see the most
// keys: they go first, or the device waits for them in the end. (The first keys
// are seen by the most queries.)
__device__ int block_of_queries() { return gridDim.y - 1 - blockIdx.y; }

// Calls step(first key, keys, values, places) for chunks of the keys that a
// block of queries sees.
template <int kDepth, bool kTf32, class Step>
__device__ void for_each_key_chunk(const Problem& p, Step step) {
  __shared__ Tile<kDepth> keys[2], values[2];
  __shared__ Place places[2][kChunk];
  const float* k = p.of_keys(p.k, kDepth);
  const float* v = p.of_keys(p.v, kDepth);
  Chunk<kDepth, kTf32> key, value;
  Place place;
  const float4 k0 = key.part_of(k), v0 = value.part_of(v);
  for_each_chunk(
      0, p.keys_seen((block_of_queries() + 1) * kRows),
      [&](int first) {
        key.load(k, kDepth, first, p.keys);
        value.load(v, kDepth, first, p.keys);
        place = p.key_place(first + threadIdx.x % kChunk);
      },
      [&](int buffer) {
        key.store(keys[buffer], k0);
        value.store(values[buffer], v0);
        if (threadIdx.x < kChunk) places[buffer][threadIdx.x] = place;
      },
      [&](int first, int buffer) {
        step(first, keys[buffer].at, values[buffer].at, places[buffer]);
      });
}

// exp2(score - peak) takes the place of the scores. Totals are of the weights
// as rounded for their products: the mean of values that are all the same must
// be that value. As long as a row has seen no key its peak is -∞.
template <bool kTf32, int kDepth, int kGroups>
__device__ void soften(float (&score)[kGroups][4], float (&peak)[2],
                       float (&total)[2], Sums<kDepth>& sum) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = -INFINITY;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      top = fmaxf(top, fmaxf(score[g][2 * half], score[g][2 * half + 1]));
    }
    const float before = peak[half];
    peak[half] = fmaxf(before, quad_max(top));
    const float base = peak[half] == -INFINITY ? 0.f : peak[half];
    const float shrink = exp2_fast(before - base);
    total[half] *= shrink;
#pragma unroll
    for (int n = 0; n < kDepth / 8; ++n) {
      sum.at[n][2 * half] *= shrink;
      sum.at[n][2 * half + 1] *= shrink;
    }
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        score[g][i] = stored<kTf32>(exp2_fast(score[g][i] - base));
        total[half] += score[g][i];
      }
    }
  }
}

template <int kDepth, bool kTf32>
__global__ void __launch_bounds__(kThreads, kBlocks<kDepth, kTf32>)
    forward_kernel(Problem p, float* out, float* lse) {
  const Formula formula(p.green, p.parameters);
  const int mine = first_row(block_of_queries());
  const auto query = load_factor<kDepth, kTf32>(p.of_queries(p.q, kDepth),
                                                kDepth, mine, p.queries);
  const Place places[2] = {p.query_place(mine + lane_row()),
                           p.query_place(mine + lane_row() + 8)};
  Sums<kDepth> sum = {};
  float peak[2] = {-INFINITY, -INFINITY}, total[2] = {};
  const int end = mine < p.queries ? p.keys_seen(mine + 16) : 0;
  for_each_key_chunk<kDepth, kTf32>(
      p, [&](int first, const float* keys, const float* values,
             const Place* key_places) {
        constexpr int kAtOnce = kForwardGroups<kDepth, kTf32>;
#pragma unroll 1
        for (int n = 0; n < kChunk / 8 && first + 8 * n < end; n += kAtOnce) {
          float score[kAtOnce][4] = {};
          add_scores<kTf32>(score, query, group<kDepth>(keys, n));
          add_logits<false>(score, places, key_places + 8 * n, formula, p);
          soften<kTf32>(score, peak, total, sum);
#pragma unroll
          for (int g = 0; g < kAtOnce; ++g) {
            add_weighted<kTf32>(sum, score[g], group<kDepth>(values, n + g));
          }
        }
      });

  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    total[half] = quad_sum(total[half]);
    inverse[half] = 1 / total[half];
    const int i = mine + lane_row() + 8 * half;
    if (lane_pair() == 0 && i < p.queries) {
      p.of_queries(lse, 1)[i] = peak[half] + log2f(total[half]);
    }
  }
  store_sums(p.of_queries(out, kDepth), kDepth, mine, p.queries, sum, inverse,
             p.of_keys(p.v, kDepth));
}

// Σ_d (out_d - v0_d) dout_d of one row, shared by the four lanes of that row.
// dout is rounded as for its products with the values, of which `out` is the
// mean: what is left of their difference would be taken for a gradient.
template <int kDepth, bool kTf32>
__device__ float mean_product(const float* out, const float* v0,
                              const float* dout) {
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kDepth / 8; ++k) {
    const int at = 8 * k + 2 * lane_pair();
    const float2 a = load2(out + at), zero = load2(v0 + at);
    const float2 b = load2(dout + at);
    sum += (a.x - zero.x) * stored<kTf32>(b.x) +
           (a.y - zero.y) * stored<kTf32>(b.y);
  }
  return sum;
}

// The sums of a block, in a fixed order, into its row of `parts`.
__device__ void store_parts(const float (&sum)[kGreenParameters],
                            float* parts) {
  __shared__ float of_warp[kWarps][kGreenParameters];
#pragma unroll
  for (int n = 0; n < kGreenParameters; ++n) {
    const float all = warp_sum(sum[n]);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32][n] = all;
  }
  __syncthreads();
  if (threadIdx.x >= kGreenParameters) return;
  float all = 0;
  for (int w = 0; w < kWarps; ++w) all += of_warp[w][threadIdx.x];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y;
  parts[row * kGreenParameters + threadIdx.x] = all;
}

// dq_i = Σ_j ds_ij k_j / √D with ds_ij = p_ij (dout_i · v_j - delta_i), and
// what parameters get: Σ ds_ij ∂Γ_ij.
template <int kDepth, bool kTf32>
__global__ void __launch_bounds__(kThreads, kBlocks<kDepth, kTf32>)
    query_kernel(Problem p, GreenBackward back) {
  const Formula formula(p.green, p.parameters);
  const int mine = first_row(block_of_queries());
  const float* dout = p.of_queries(back.dout, kDepth);
  const auto query = load_factor<kDepth, kTf32>(p.of_queries(p.q, kDepth),
                                                kDepth, mine, p.queries);
  const auto grad = load_factor<kDepth, kTf32>(dout, kDepth, mine, p.queries);
  const Place places[2] = {p.query_place(mine + lane_row()),
                           p.query_place(mine + lane_row() + 8)};

  float norm[2], mean[2];  // lse and delta of this lane's rows
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = mine + lane_row() + 8 * half;
    const int i = min(row, p.queries - 1);
    // An lse of ∞ gives queries past the end no weight.
    norm[half] = row < p.queries ? p.of_queries(back.lse, 1)[i] : INFINITY;
    mean[half] = mean_product<kDepth, kTf32>(
        token(p.of_queries(back.out, kDepth), kDepth, i),
        p.of_keys(p.v, kDepth), token(dout, kDepth, i));
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) mean[half] = quad_sum(mean[half]);

  Sums<kDepth> sum = {};
  float by_parameter[kGreenParameters] = {};
  const int end = mine < p.queries ? p.keys_seen(mine + 16) : 0;
  for_each_key_chunk<kDepth, kTf32>(
      p, [&](int first, const float* keys, const float* values,
             const Place* key_places) {
        constexpr int kAtOnce = kBackwardGroups<kDepth, kTf32>;
#pragma unroll 1
        for (int n = 0; n < kChunk / 8 && first + 8 * n < end; n += kAtOnce) {
          const float* key = group<kDepth>(keys, n);
          float score[kAtOnce][4] = {}, slope[kAtOnce][4] = {};
          add_scores<kTf32>(score, query, key);
          add_scores<kTf32>(slope, grad, group<kDepth>(values, n));
          add_logits<false>(score, places, key_places + 8 * n, formula, p);
#pragma unroll
          for (int g = 0; g < kAtOnce; ++g) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const float part = exp2_fast(score[g][i] - norm[i / 2]);
              slope[g][i] = stored<kTf32>(part * (slope[g][i] - mean[i / 2]));
            }
            add_weighted<kTf32>(sum, slope[g], group<kDepth>(key, g));
          }
          if (p.learns) {
            add_parameter_slopes(slope, places, key_places + 8 * n, formula, p,
                                 by_parameter);
          }
        }
      });

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = mine + lane_row() + 8 * half;
    if (lane_pair() == 0 && i < p.queries) {
      p.of_queries(back.delta, 1)[i] = mean[half];
    }
  }
  store_sums(p.of_queries(back.dq, kDepth), kDepth, mine, p.queries, sum,
             {p.scale, p.scale});
  if (p.learns) store_parts(by_parameter, back.parts);
}

// dv_j = Σ_i p_ij dout_i and dk_j = Σ_i ds_ij q_i / √D.
template <int kDepth, bool kTf32>
__global__ void __launch_bounds__(kThreads, kBlocks<kDepth, kTf32>)
    key_kernel(Problem p, GreenBackward back) {
  __shared__ Tile<kDepth> queries[2], grads[2];
  __shared__ float2 stats[2][kChunk];  // lse and delta of the queries
  __shared__ Place places[2][kChunk];
  const Formula formula(p.green, p.parameters);
  const float* q = p.of_queries(p.q, kDepth);
  const float* k = p.of_keys(p.k, kDepth);
  const float* v = p.of_keys(p.v, kDepth);
  const float* dout = p.of_queries(back.dout, kDepth);
  const float* lse = p.of_queries(back.lse, 1);
  const float* delta = p.of_queries(back.delta, 1);
  const int mine = first_row(blockIdx.y);
  const auto key = load_factor<kDepth, kTf32>(k, kDepth, mine, p.keys, k);
  const auto value = load_factor<kDepth, kTf32>(v, kDepth, mine, p.keys, v);
  const Place key_places[2] = {p.key_place(mine + lane_row()),
                               p.key_place(mine + lane_row() + 8)};

  const int begin = mine < p.keys ? p.first_query(mine) : p.queries;
  Sums<kDepth> key_sum = {}, value_sum = {};
  Chunk<kDepth, kTf32> query, grad;
  float2 stat;
  Place place;
  for_each_chunk(
      p.first_query(blockIdx.y * kRows), p.queries,
      [&](int first) {
        query.load(q, kDepth, first, p.queries);
        grad.load(dout, kDepth, first, p.queries);
        const int i = first + threadIdx.x % kChunk;
        const int last = min(i, p.queries - 1);
        // An lse of ∞ gives queries past the end no weight.
        stat = {i < p.queries ? lse[last] : INFINITY, delta[last]};
        place = p.query_place(i);
      },
      [&](int buffer) {
        query.store(queries[buffer]);
        grad.store(grads[buffer]);
        if (threadIdx.x >= kChunk) return;
        stats[buffer][threadIdx.x] = stat;
        places[buffer][threadIdx.x] = place;
      },
      [&](int first, int buffer) {
        constexpr int kAtOnce = kBackwardGroups<kDepth, kTf32>;
#pragma unroll 1
        for (int n = 0; n < kChunk / 8; n += kAtOnce) {
          if (first + 8 * (n + kAtOnce) <= begin) continue;
          const float* query_rows = group<kDepth>(queries[buffer].at, n);
          const float* grad_rows = group<kDepth>(grads[buffer].at, n);
          float part[kAtOnce][4] = {}, slope[kAtOnce][4] = {};
          add_scores<kTf32>(part, key, query_rows);
          add_scores<kTf32>(slope, value, grad_rows);
          add_logits<true>(part, key_places, places[buffer] + 8 * n, formula,
                           p);
#pragma unroll
          for (int g = 0; g < kAtOnce; ++g) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const float2 stat = stats[buffer][8 * n + column_row(g, i % 2)];
              const float p_ij = exp2_fast(part[g][i] - stat.x);
              part[g][i] = stored<kTf32>(p_ij);
              slope[g][i] = stored<kTf32>(p_ij * (slope[g][i] - stat.y));
            }
            add_weighted<kTf32>(value_sum, part[g],
                                group<kDepth>(grad_rows, g));
            add_weighted<kTf32>(key_sum, slope[g],
                                group<kDepth>(query_rows, g));
          }
        }
      });
  store_sums(p.of_keys(back.dk, kDepth), kDepth, mine, p.keys, key_sum,
             {p.scale, p.scale});
  store_sums(p.of_keys(back.dv, kDepth), kDepth, mine, p.keys, value_sum,
             {1, 1});
}

Problem problem_of(const GreenShape& s, const GreenPointers& in) {
  return {s.heads,
          s.queries,
          s.keys,
          s.query_length,
          s.key_length,
          s.scale,
          s.scale * kLog2E,
          s.learns,
          s.green,
          in.q,
          in.k,
          in.v,
          in.query_places,
          in.key_places,
          in.parameters};
}

dim3 grid_of(const GreenShape& shape, int rows) {
  return dim3(shape.batch * shape.heads, (rows + kRows - 1) / kRows);
}

// Calls launch(depth, tf32) with both as types.
template <class Launch>
void choose(const GreenShape& shape, Launch launch) {
  if (!shape.batch || !shape.heads || !shape.queries || !shape.keys) return;
  const auto with_depth = [&](auto depth) {
    if (shape.tf32) return launch(depth, std::true_type{});
    return launch(depth, std::false_type{});
  };
  switch (shape.depth) {
    case 16:
      return with_depth(std::integral_constant<int, 16>{});
    case 32:
      return with_depth(std::integral_constant<int, 32>{});
    case 64:
      return with_depth(std::integral_constant<int, 64>{});
    default:
      throw std::invalid_argument(
          "[green_attention] expected heads of depth 16, 32 or 64 but got " +
          std::to_string(shape.depth));
  }
}

}  // namespace

bool green_depth_supported(int depth) {
  return depth == 16 || depth == 32 || depth == 64;
}

void launch_green_attention(const GreenShape& shape, const GreenPointers& in,
                            float* out, float* lse, cudaStream_t stream) {
  const Problem p = problem_of(shape, in);
  choose(shape, [&](auto depth, auto tf32) {
    forward_kernel<depth(), tf32()>
        <<<grid_of(shape, shape.queries), kThreads, 0, stream>>>(p, out, lse);
  });
}

int green_parts(const GreenShape& shape) {
  const dim3 grid = grid_of(shape, shape.queries);
  return static_cast<int>(grid.x * grid.y);
}

void launch_green_attention_backward(const GreenShape& shape,
                                     const GreenPointers& in,
                                     const GreenBackward& back,
                                     cudaStream_t stream) {
  const Problem p = problem_of(shape, in);
  choose(shape, [&](auto depth, auto tf32) {
    query_kernel<depth(), tf32()>
        <<<grid_of(shape, shape.queries), kThreads, 0, stream>>>(p, back);
    key_kernel<depth(), tf32()>
        <<<grid_of(shape, shape.keys), kThreads, 0, stream>>>(p, back);
  });
}

}  // namespace propagator::kernels
