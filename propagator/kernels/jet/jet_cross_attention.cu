#include "propagator/kernels/jet/jet_cross_attention.cuh"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "propagator/kernels/jet/jet_cross_rows.cuh"

// Points are the rows that a block owns (mma_rows.cuh), in as many factors and
// sums as their jets have rows; tokens pass by in shared memory, first for the
// centres, then for the answer. In the second half of the backward pass tokens
// are the rows, and points pass by.
namespace propagator::kernels {
namespace {

using namespace cross;

constexpr int64_t kBlocks = 528;  // four for each multiprocessor of an H200
constexpr int64_t kMostParts = 16;

// What a point keeps of its tokens: log Σ exp s_0, and the centres.
template <class F>
struct Kept {
  float at[F::kRows];
};

// The sums over tokens that centres are made of, of a lane's two points, with
// weights over exp(peak).
template <class F>
struct Means {
  float peak[2] = {-INFINITY, -INFINITY}, total[2] = {};
  float scores[2][F::kRows] = {}, squares[2][F::kSecond + 1] = {};

  __device__ void take(const Job& job, const Scores<F>& s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float before = peak[half];
      peak[half] = fmaxf(before, quad_max(fmaxf(s.at[0][0][2 * half],
                                                s.at[0][0][2 * half + 1])));
      scale(half, exp_fast(before - peak[half]));
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        const float w = exp_fast(s.at[0][0][i] - peak[half]);
        total[half] += w;
#pragma unroll
        for (int m = 1; m < F::kRows; ++m) {
          scores[half][m] += w * s.at[m][0][i];
        }
#pragma unroll
        for (int n = 0; n < F::kSecond; ++n) {
          squares[half][n] +=
              w * sum_squares<F>(job, n, [&](int r) { return s.at[r][0][i]; });
        }
      }
    }
  }

  __device__ Kept<F> finish(const Job& job, int half) const {
    const float all = quad_sum(total[half]);
    Kept<F> kept;
    kept.at[0] = peak[half] + logf(all);
#pragma unroll
    for (int m = 1; m < F::kRows; ++m) {
      kept.at[m] = quad_sum(scores[half][m]) / all;
    }
#pragma unroll
    for (int n = 0; n < F::kSecond; ++n) {
      const float mean = quad_sum(squares[half][n]) / all;
      kept.at[1 + F::kFirst + n] +=
          0.5f *
          (mean - sum_squares<F>(job, n, [&](int r) { return kept.at[r]; }));
    }
    return kept;
  }

 private:
  __device__ void scale(int half, float factor) {
    total[half] *= factor;
#pragma unroll
    for (int m = 1; m < F::kRows; ++m) scores[half][m] *= factor;
#pragma unroll
    for (int n = 0; n < F::kSecond; ++n) squares[half][n] *= factor;
  }
};

// Σ w t_m v and, with the weights as rounded for it, Σ w t_m.
template <class F, bool kTf32>
struct Answer {
  Sums<F::kDepth> sums[F::kRows] = {};
  float totals[2][F::kRows] = {};

  __device__ void take(const Job& job, const Kept<F> (&kept)[2], Scores<F>& s,
                       const float* values) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float t[F::kRows];
      s.get(i, t);
      const float w = exp_fast(t[0] - kept[i / 2].at[0]);
      centre<F>(job, kept[i / 2].at, t);
      t[0] = 1;
#pragma unroll
      for (int m = 0; m < F::kRows; ++m) {
        t[m] = stored<kTf32>(w * t[m]);
        totals[i / 2][m] += t[m];
      }
      s.put(i, t);
    }
#pragma unroll
    for (int m = 0; m < F::kRows; ++m) {
      add_weighted<kTf32>(sums[m], s.at[m][0], values);
    }
  }

  // Weights that are rounded do not sum to 1, 0, 0: the means take away what
  // values that are all the same would get.
  __device__ void write(const Job& job, int first, float* out) {
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      inverse[half] = 1 / quad_sum(totals[half][0]);
#pragma unroll
      for (int m = 1; m < F::kRows; ++m) {
        const float off = quad_sum(totals[half][m]) * inverse[half];
#pragma unroll
        for (int k = 0; k < F::kDepth / 8; ++k) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            sums[m].at[k][i] -= off * sums[0].at[k][i];
          }
        }
      }
    }
    const auto& of = job.of;
#pragma unroll
    for (int m = 0; m < F::kRows; ++m) {
      store_sums(job.of_points(out, m), job.stride(), first, job.points(),
                 sums[m], inverse, m == 0 ? job.of_head(of.v) : nullptr);
    }
  }
};

template <class F, bool kTf32>
__global__ void __launch_bounds__(kThreads)
    forward(Job job, float* out, float* sums) {
  const int first = first_row(blockIdx.x);
  Factors<F> query;
  query.template load<kTf32>(job, job.of.q, first, job.scale);
  Means<F> means;
  for_token_groups<F, kTf32>(
      job, [&](int token, const float* keys, const float*) {
        means.take(job, scores_of<kTf32>(job, query, keys, token));
      });
  const Kept<F> kept[2] = {means.finish(job, 0), means.finish(job, 1)};
  Answer<F, kTf32> answer;
  for_token_groups<F, kTf32>(
      job, [&](int token, const float* keys, const float* values) {
        auto s = scores_of<kTf32>(job, query, keys, token);
        answer.take(job, kept, s, values);
      });
  answer.write(job, first, out);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int point = first + lane_row() + 8 * half;
    if (lane_pair() != 0 || point >= job.points()) continue;
    float* to = job.of_point<F>(sums, point);
#pragma unroll
    for (int m = 0; m < F::kRows; ++m) to[m] = kept[half].at[m];
  }
}

// What the gradient b by the answer g takes away from those by w t_m: by the
// sum of w, which is 1, Σ g_m b_m; by the centres, g_0 b_1 ± g_1 b_2 and g_0
// b_2.
template <class F>
__device__ void taken_away(const Job& job, const float* out, int point,
                           const Factors<F>& grad, int half,
                           float (&taken)[F::kRows]) {
  float g[F::kRows][F::kDepth / 8][2];
#pragma unroll
  for (int m = 0; m < F::kRows; ++m) {
    const float* from = token(job.of_points(out, m), job.stride(), point);
#pragma unroll
    for (int k = 0; k < F::kDepth / 8; ++k) {
      const int at = 8 * k + 2 * lane_pair();
      const float2 x = load2(from + at);
      const float2 zero = m == 0 ? load2(job.of_head(job.of.v) + at) : float2{};
      g[m][k][0] = x.x - zero.x;
      g[m][k][1] = x.y - zero.y;
    }
  }
  const auto dots = [&](int of_g, int of_b) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < F::kDepth / 8; ++k) {
      sum += g[of_g][k][0] * grad.at[of_b].at[k][half] +
             g[of_g][k][1] * grad.at[of_b].at[k][half + 2];
    }
    return quad_sum(sum);
  };
#pragma unroll
  for (int m = 0; m < F::kRows; ++m) taken[m] = dots(0, m);
#pragma unroll
  for (int m = 1; m < F::kRows; ++m) taken[0] += dots(m, m);
#pragma unroll
  for (int n = 0; n < F::kSecond; ++n) {
#pragma unroll
    for (int r = 1; r <= F::kFirst; ++r) {
      taken[r] += job.signs[n][r - 1] * dots(r, 1 + F::kFirst + n);
    }
  }
}

template <class F, bool kTf32>
__global__ void __launch_bounds__(kThreads)
    backward_of_queries(Job job, JetCrossBackward with) {
  const int first = first_row(blockIdx.x);
  Factors<F> query, grad;
  query.template load<kTf32>(job, job.of.q, first, job.scale);
  grad.template load<kTf32>(job, with.grad, first, 1);
  float kept[2][F::kRows], taken[2][F::kRows];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + lane_row() + 8 * half;
    const int point = min(row, job.points() - 1);
    taken_away<F>(job, with.out, point, grad, half, taken[half]);
    float* to = job.of_point<F>(with.taken, point);
#pragma unroll
    for (int m = 0; m < F::kRows; ++m) {
      kept[half][m] = job.of_point<F>(with.sums, point)[m];
      if (lane_pair() == 0 && row < job.points()) to[m] = taken[half][m];
    }
  }
  Sums<F::kDepth> by_query[F::kRows] = {};
  for_token_groups<F, kTf32>(
      job, [&](int token, const float* keys, const float* values) {
        const auto s = scores_of<kTf32>(job, query, keys, token);
        Scores<F> y = {};
        y.template add<kTf32>(grad, values);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          weighted_slopes<F, kTf32>(job, kept[i / 2], taken[i / 2], s, y, i);
        }
#pragma unroll
        for (int m = 0; m < F::kRows; ++m) {
          add_weighted<kTf32>(by_query[m], y.at[m][0], keys);
        }
      });
#pragma unroll
  for (int m = 0; m < F::kRows; ++m) {
    store_sums(job.of_points(with.dq, m), job.stride(), first, job.points(),
               by_query[m], {job.scale, job.scale});
  }
}

template <class F, bool kTf32>
__global__ void __launch_bounds__(kThreads)
    backward_of_tokens(Job job, JetCrossBackward with, int points_of_part) {
  __shared__ Points<F> points;
  const int mine = first_row(blockIdx.x),
            tokens = static_cast<int>(job.of.tokens);
  const float *k = job.of_head(job.of.k), *v = job.of_head(job.of.v);
  const auto key =
      load_factor<F::kDepth, kTf32>(k, job.stride(), mine, tokens, k);
  const auto value =
      load_factor<F::kDepth, kTf32>(v, job.stride(), mine, tokens, v);
  Sums<F::kDepth> by_key = {}, by_value = {};
  const int begin = static_cast<int>(blockIdx.z) * points_of_part;
  const int end = min(begin + points_of_part, job.points());
  for (int first = begin; first < end; first += Points<F>::kCount) {
    __syncthreads();
    points.template copy<kTf32>(job, with, first, end);
    __syncthreads();
#pragma unroll 1
    for (int n = 0; n < Points<F>::kCount && first + n < end; n += 8) {
      Scores<F> s = {}, y = {};
#pragma unroll
      for (int m = 0; m < F::kRows; ++m) {
        add_scores<kTf32>(s.at[m], key, points.queries_from(m, n));
        add_scores<kTf32>(y.at[m], value, points.grads_from(m, n));
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = n + row_of(2 * lane_pair() + i % 2);
        auto t = weighted_slopes<F, kTf32>(job, points.sums[at],
                                           points.taken[at], s, y, i);
        s.put(i, t.at);
      }
#pragma unroll
      for (int m = 0; m < F::kRows; ++m) {
        add_weighted<kTf32>(by_key, y.at[m][0], points.queries_from(m, n));
        add_weighted<kTf32>(by_value, s.at[m][0], points.grads_from(m, n));
      }
    }
  }
  const int64_t size = job.of.tokens * job.of.width;
  float* to = job.of_head(with.parts + 2 * size * blockIdx.z);
  store_sums(to, job.stride(), mine, tokens, by_key, {1, 1});
  store_sums(to + size, job.stride(), mine, tokens, by_value, {1, 1});
}

Job job_of(const JetCross& of) {
  Job job{of, 1 / std::sqrt(static_cast<float>(of.depth)), {}};
  const auto& o = of.orders;
  for (int64_t r = 1; r <= o.second; ++r) {
    job.signs[o.second_row(r) - o.first - 1][r - 1] =
        static_cast<float>(o.sign(r));
  }
  return job;
}

// Calls `work(form)` if there is one for such heads and orders.
template <class Work>
bool with_form(int64_t depth, const JetOrders& o, const Work& work) {
  const auto of_depth = [&](auto form) {
    using F = decltype(form);
    if (o.first != F::kFirst || o.rows() != F::kRows) return false;
    if (depth == 16) work(Form<F::kFirst, F::kSecond, 16>());
    if (depth == 32) work(Form<F::kFirst, F::kSecond, 32>());
    return depth == 16 || depth == 32;
  };
  return of_depth(Form<0, 0, 0>()) || of_depth(Form<2, 1, 0>()) ||
         of_depth(Form<2, 2, 0>()) || of_depth(Form<3, 1, 0>()) ||
         of_depth(Form<3, 2, 0>());
}

// Calls `launch(form, tf32)` with both as types.
template <class Launch>
void choose(const JetCross& of, const Launch& launch) {
  with_form(of.depth, of.orders, [&](auto form) {
    if (of.tf32) return launch(form, std::true_type{});
    return launch(form, std::false_type{});
  });
}

unsigned blocks_of(int64_t count) {
  return static_cast<unsigned>(blocks_for(count, kRows));
}

}  // namespace

bool jet_cross_attention_has(int64_t depth, const JetOrders& orders) {
  return with_form(depth, orders, [](auto) {});
}

void launch_jet_cross_attention(const JetCross& of, float* out, float* sums,
                                cudaStream_t stream) {
  const dim3 grid(blocks_of(of.points), static_cast<unsigned>(of.heads()));
  choose(of, [&](auto form, auto tf32) {
    forward<decltype(form), tf32()>
        <<<grid, kThreads, 0, stream>>>(job_of(of), out, sums);
  });
}

int64_t jet_cross_attention_parts(const JetCross& of) {
  const int64_t blocks = int64_t{blocks_of(of.tokens)} * of.heads();
  const int64_t most = blocks_for(of.points, kChunk);
  return std::clamp(blocks_for(kBlocks, blocks), int64_t{1},
                    std::min(kMostParts, most));
}

void launch_jet_cross_attention_backward(const JetCross& of,
                                         const JetCrossBackward& with,
                                         cudaStream_t stream) {
  const auto heads = static_cast<unsigned>(of.heads());
  const int64_t parts = jet_cross_attention_parts(of);
  const dim3 of_points(blocks_of(of.points), heads);
  const dim3 of_tokens(blocks_of(of.tokens), heads,
                       static_cast<unsigned>(parts));
  choose(of, [&](auto form, auto tf32) {
    using F = decltype(form);
    const auto job = job_of(of);
    backward_of_queries<F, tf32()>
        <<<of_points, kThreads, 0, stream>>>(job, with);
    const int64_t chunks = blocks_for(blocks_for(of.points, parts), kChunk);
    backward_of_tokens<F, tf32()><<<of_tokens, kThreads, 0, stream>>>(
        job, with, static_cast<int>(chunks * kChunk));
  });
}

}  // namespace propagator::kernels
