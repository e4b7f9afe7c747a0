#include "propagator/kernels/encoder/causal_attention.cuh"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "propagator/kernels/mma_rows.cuh"

namespace propagator::kernels {
namespace {

using namespace mma_rows;

constexpr int kAtOnce = 2;  // groups of 8 rows that a backward step takes

// Blocks that should fit on one multiprocessor: this bounds the registers.
template <int kDepth, bool kTf32>
constexpr int kBlocks = kDepth == 64 ? 2 : 3 + kTf32;

// Keys and values are taken as differences from those of one token that every
// query sees. A softmax does not move when all keys do, nor its gradient when
// all values do; so what tokens have in common drops out before it is rounded.
// Left in, its rounding becomes a gradient, which for tokens that are much
// alike is larger than the true one.
struct Problem {
  int heads, tokens, prefix, itself;
  float scale, scale2;  // 1/√D, and log2(e)/√D for exp2

  // The key or value of that token, in rows of one head.
  __device__ const float* origin(const float* x, int stride) const {
    return token(x, stride, prefix - 1);
  }

  // Query i sees the keys j < keys_seen(i), which does not decrease with i.
  __device__ int keys_seen(int query) const {
    return min(tokens, max(prefix, query + itself));
  }
  __device__ int first_query(int key) const {
    return key < prefix ? 0 : key + 1 - itself;
  }
};

__device__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The first token of the head that this block works on.
template <int kDepth, class Real>
__device__ Real* this_head(Real* x, int stride, const Problem& p) {
  const int64_t batch = blockIdx.x / p.heads, head = blockIdx.x % p.heads;
  return x + batch * p.tokens * stride + head * kDepth;
}

// The queries of a block, a warp and a lane.
struct Queries {
  int block, warp, row;  // the first of each; the lane also has row + 8
  int seen[2];           // the keys of its two rows
  int end;               // the keys of the warp

  // The queries that see most keys begin first.
  __device__ explicit Queries(const Problem& p)
      : block((gridDim.y - 1 - blockIdx.y) * kRows),
        warp(block + threadIdx.x / 32 * 16),
        row(warp + lane_row()),
        seen{p.keys_seen(row), p.keys_seen(row + 8)},
        end(warp < p.tokens ? p.keys_seen(warp + 15) : 0) {}

  // Scores have queries as rows and keys, from `first` on, as columns.
  template <int kGroups>
  __device__ void hide(float (&score)[kGroups][4], int first,
                       const Problem& p) const {
    if (first + 8 * kGroups <= p.keys_seen(warp)) return;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first + 8 * g + row_of(2 * lane_pair() + i % 2);
        if (key >= seen[i / 2]) score[g][i] = -INFINITY;
      }
    }
  }
};

// Calls step(first key, keys, values) for chunks of the keys that a block sees.
template <int kDepth, bool kTf32, class Step>
__device__ void for_each_key_chunk(const Problem& p, const Queries& queries,
                                   const float* k, const float* v, int stride,
                                   Step step) {
  __shared__ Tile<kDepth> keys[2], values[2];
  k = this_head<kDepth>(k, stride, p);
  v = this_head<kDepth>(v, stride, p);
  Chunk<kDepth, kTf32> key, value;
  const float4 k0 = key.part_of(p.origin(k, stride));
  const float4 v0 = value.part_of(p.origin(v, stride));
  for_each_chunk(
      0, p.keys_seen(queries.block + kRows - 1),
      [&](int first) {
        key.load(k, stride, first, p.tokens);
        value.load(v, stride, first, p.tokens);
      },
      [&](int buffer) {
        key.store(keys[buffer], k0);
        value.store(values[buffer], v0);
      },
      [&](int first, int buffer) {
        step(first, keys[buffer].at, values[buffer].at);
      });
}

// exp(score - peak) takes the place of the scores; peaks are in powers of 2.
// Totals are of the weights as rounded for their products: the mean of values
// that are all the same must be that value.
template <bool kTf32, int kDepth, int kGroups>
__device__ void soften(float (&score)[kGroups][4], float (&peak)[2],
                       float (&total)[2], Sums<kDepth>& sum, float scale2) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float top = -INFINITY;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      top = fmaxf(top, fmaxf(score[g][2 * half], score[g][2 * half + 1]));
    }
    const float before = peak[half];
    peak[half] = fmaxf(before, quad_max(top) * scale2);
    const float shrink = exp2_fast(before - peak[half]);
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
        score[g][i] =
            stored<kTf32>(exp2_fast(fmaf(score[g][i], scale2, -peak[half])));
        total[half] += score[g][i];
      }
    }
  }
}

template <int kDepth, bool kTf32>
__global__ void __launch_bounds__(kThreads, kBlocks<kDepth, kTf32>)
    forward_kernel(Problem p, const float* __restrict__ q,
                   const float* __restrict__ k, const float* __restrict__ v,
                   int stride, float* out, int out_stride, float* lse) {
  const Queries mine(p);
  const auto query = load_factor<kDepth, kTf32>(this_head<kDepth>(q, stride, p),
                                                stride, mine.warp, p.tokens);
  Sums<kDepth> sum = {};
  float peak[2] = {-INFINITY, -INFINITY}, total[2] = {};
  for_each_key_chunk<kDepth, kTf32>(
      p, mine, k, v, stride,
      [&](int first, const float* keys, const float* values) {
        if (first >= mine.end) return;
        float score[kChunk / 8][4] = {};
        add_scores<kTf32>(score, query, keys);
        mine.hide(score, first, p);
        soften<kTf32>(score, peak, total, sum, p.scale2);
#pragma unroll
        for (int g = 0; g < kChunk / 8; ++g) {
          add_weighted<kTf32>(sum, score[g], group<kDepth>(values, g));
        }
      });

  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    total[half] = quad_sum(total[half]);
    inverse[half] = 1 / total[half];
    const int i = mine.row + 8 * half;
    if (lane_pair() == 0 && i < p.tokens) {
      token(lse, p.tokens, blockIdx.x)[i] = peak[half] + log2f(total[half]);
    }
  }
  store_sums(this_head<kDepth>(out, out_stride, p), out_stride, mine.warp,
             p.tokens, sum, inverse,
             p.origin(this_head<kDepth>(v, stride, p), stride));
}

// Σ_d (out_d - v0_d) dout_d of one row, shared by the four lanes of that row.
// dout is rounded as for its products with the values, of which `out` is the
// mean: where one key has all the weight the two must be the same, for what is
// left of their difference is taken for a gradient, and grows from layer to
// layer.
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

// dq_i = Σ_j ds_ij k_j / √D with ds_ij = p_ij (dout_i · v_j - delta_i).
template <int kDepth, bool kTf32>
__global__ void __launch_bounds__(kThreads, kBlocks<kDepth, kTf32>)
    query_kernel(Problem p, const float* __restrict__ q,
                 const float* __restrict__ k, const float* __restrict__ v,
                 int stride, const float* __restrict__ out,
                 const float* __restrict__ dout, int out_stride,
                 const float* __restrict__ lse, float* delta, float* dq,
                 int grad_stride) {
  const Queries mine(p);
  dout = this_head<kDepth>(dout, out_stride, p);
  const auto query = load_factor<kDepth, kTf32>(this_head<kDepth>(q, stride, p),
                                                stride, mine.warp, p.tokens);
  const auto grad =
      load_factor<kDepth, kTf32>(dout, out_stride, mine.warp, p.tokens);

  float norm[2], mean[2];  // lse and delta of this lane's rows
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = min(mine.row + 8 * half, p.tokens - 1);
    norm[half] = token(lse, p.tokens, blockIdx.x)[i];
    mean[half] = mean_product<kDepth, kTf32>(
        token(this_head<kDepth>(out, out_stride, p), out_stride, i),
        p.origin(this_head<kDepth>(v, stride, p), stride),
        token(dout, out_stride, i));
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) mean[half] = quad_sum(mean[half]);

  Sums<kDepth> sum = {};
  const auto add = [&](int first, const float* keys, const float* values) {
    float score[kAtOnce][4] = {}, weight[kAtOnce][4] = {};
    add_scores<kTf32>(score, query, keys);
    add_scores<kTf32>(weight, grad, values);
    mine.hide(score, first, p);
#pragma unroll
    for (int g = 0; g < kAtOnce; ++g) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float part = exp2_fast(fmaf(score[g][i], p.scale2, -norm[i / 2]));
        weight[g][i] = stored<kTf32>(part * (weight[g][i] - mean[i / 2]));
      }
      add_weighted<kTf32>(sum, weight[g], group<kDepth>(keys, g));
    }
  };
  for_each_key_chunk<kDepth, kTf32>(
      p, mine, k, v, stride,
      [&](int first, const float* keys, const float* values) {
#pragma unroll
        for (int g = 0; g < kChunk / 8; g += kAtOnce) {
          if (first + 8 * g >= mine.end) continue;
          add(first + 8 * g, group<kDepth>(keys, g), group<kDepth>(values, g));
        }
      });

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = mine.row + 8 * half;
    if (lane_pair() == 0 && i < p.tokens) {
      token(delta, p.tokens, blockIdx.x)[i] = mean[half];
    }
  }
  store_sums(this_head<kDepth>(dq, grad_stride, p), grad_stride, mine.warp,
             p.tokens, sum, {p.scale, p.scale});
}

// Here scores have keys as rows and queries as columns.
template <int kGroups>
__device__ void hide_queries(float (&score)[kGroups][4], int first_key,
                             int first_query, const Problem& p) {
  if (first_key + 15 < p.keys_seen(first_query)) return;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int query = first_query + 8 * g + row_of(2 * lane_pair() + i % 2);
      const int key = first_key + lane_row() + i / 2 * 8;
      if (key >= p.keys_seen(query)) score[g][i] = -INFINITY;
    }
  }
}

// dv_j = Σ_i p_ij dout_i and dk_j = Σ_i ds_ij q_i / √D.
template <int kDepth, bool kTf32>
__global__ void __launch_bounds__(kThreads, kBlocks<kDepth, kTf32>)
    key_kernel(Problem p, const float* __restrict__ q,
               const float* __restrict__ k, const float* __restrict__ v,
               int stride, const float* __restrict__ dout, int out_stride,
               const float* __restrict__ lse, const float* __restrict__ delta,
               float* dk, float* dv, int grad_stride) {
  __shared__ Tile<kDepth> queries[2], grads[2];
  __shared__ float2 stats[2][kChunk];  // lse and delta of the queries
  q = this_head<kDepth>(q, stride, p);
  k = this_head<kDepth>(k, stride, p);
  v = this_head<kDepth>(v, stride, p);
  dout = this_head<kDepth>(dout, out_stride, p);
  lse = token(lse, p.tokens, blockIdx.x);
  delta = token(delta, p.tokens, blockIdx.x);
  const int block = blockIdx.y * kRows;
  const int mine = block + threadIdx.x / 32 * 16;
  const auto key = load_factor<kDepth, kTf32>(k, stride, mine, p.tokens,
                                              p.origin(k, stride));
  const auto value = load_factor<kDepth, kTf32>(v, stride, mine, p.tokens,
                                                p.origin(v, stride));

  Sums<kDepth> key_sum = {}, value_sum = {};
  const auto add = [&](int first, const float* query_rows,
                       const float* grad_rows, const float2* stat) {
    float part[kAtOnce][4] = {}, weight[kAtOnce][4] = {};
    add_scores<kTf32>(part, key, query_rows);
    add_scores<kTf32>(weight, value, grad_rows);
    hide_queries(part, mine, first, p);
#pragma unroll
    for (int g = 0; g < kAtOnce; ++g) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 norm_mean = stat[8 * g + row_of(2 * lane_pair() + i % 2)];
        const float p_ij = exp2_fast(fmaf(part[g][i], p.scale2, -norm_mean.x));
        part[g][i] = stored<kTf32>(p_ij);
        weight[g][i] = stored<kTf32>(p_ij * (weight[g][i] - norm_mean.y));
      }
      add_weighted<kTf32>(value_sum, part[g], group<kDepth>(grad_rows, g));
      add_weighted<kTf32>(key_sum, weight[g], group<kDepth>(query_rows, g));
    }
  };
  Chunk<kDepth, kTf32> query, grad;
  float2 stat;
  for_each_chunk(
      p.first_query(block), p.tokens,
      [&](int first) {
        query.load(q, stride, first, p.tokens);
        grad.load(dout, out_stride, first, p.tokens);
        const int i = first + threadIdx.x % kChunk;
        const int last = min(i, p.tokens - 1);
        // An lse of ∞ gives queries past the end no weight.
        stat = {i < p.tokens ? lse[last] : INFINITY, delta[last]};
      },
      [&](int buffer) {
        query.store(queries[buffer]);
        grad.store(grads[buffer]);
        if (threadIdx.x < kChunk) stats[buffer][threadIdx.x] = stat;
      },
      [&](int first, int buffer) {
#pragma unroll
        for (int g = 0; g < kChunk / 8; g += kAtOnce) {
          const int last = first + 8 * (g + kAtOnce) - 1;
          if (mine >= p.keys_seen(last)) continue;
          add(first + 8 * g, group<kDepth>(queries[buffer].at, g),
              group<kDepth>(grads[buffer].at, g), stats[buffer] + 8 * g);
        }
      });
  store_sums(this_head<kDepth>(dk, grad_stride, p), grad_stride, mine, p.tokens,
             key_sum, {p.scale, p.scale});
  store_sums(this_head<kDepth>(dv, grad_stride, p), grad_stride, mine, p.tokens,
             value_sum, {1, 1});
}

Problem problem_of(const CausalShape& shape) {
  const double scale = 1 / std::sqrt(static_cast<double>(shape.depth));
  constexpr double kLog2E = 1.4426950408889634;
  return {shape.heads,
          shape.tokens,
          std::min(shape.prefix, shape.tokens),
          shape.sees_itself ? 1 : 0,
          static_cast<float>(scale),
          static_cast<float>(scale * kLog2E)};
}

dim3 grid_of(const CausalShape& shape) {
  return dim3(shape.batch * shape.heads, (shape.tokens + kRows - 1) / kRows);
}

// Calls launch(depth, tf32) with both as types.
template <class Launch>
void choose(const CausalShape& shape, Launch launch) {
  if (!shape.batch || !shape.heads || !shape.tokens) return;
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
          "[causal_attention] expected heads of depth 16, 32 or 64 but got " +
          std::to_string(shape.depth));
  }
}

}  // namespace

bool causal_depth_supported(int depth) {
  return depth == 16 || depth == 32 || depth == 64;
}

void launch_causal_attention(const CausalShape& shape, const float* q,
                             const float* k, const float* v, int stride,
                             float* out, int out_stride, float* lse,
                             cudaStream_t stream) {
  const Problem p = problem_of(shape);
  choose(shape, [&](auto depth, auto tf32) {
    forward_kernel<depth(), tf32()><<<grid_of(shape), kThreads, 0, stream>>>(
        p, q, k, v, stride, out, out_stride, lse);
  });
}

void launch_causal_attention_backward(const CausalShape& shape, const float* q,
                                      const float* k, const float* v,
                                      int stride, const float* out,
                                      const float* dout, int out_stride,
                                      const float* lse, float* delta, float* dq,
                                      float* dk, float* dv, int grad_stride,
                                      cudaStream_t stream) {
  const Problem p = problem_of(shape);
  const dim3 grid = grid_of(shape);
  choose(shape, [&](auto depth, auto tf32) {
    query_kernel<depth(), tf32()><<<grid, kThreads, 0, stream>>>(
        p, q, k, v, stride, out, dout, out_stride, lse, delta, dq, grad_stride);
    key_kernel<depth(), tf32()><<<grid, kThreads, 0, stream>>>(
        p, q, k, v, stride, dout, out_stride, lse, delta, dk, dv, grad_stride);
  });
}

}  // namespace propagator::kernels
