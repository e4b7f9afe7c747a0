#include "propagator/kernels/jet/jet_cross_attention.cuh"

#include <algorithm>
#include <cmath>

#include "propagator/kernels/jet/jet_cross_rows.cuh"

// Points have threads; tokens pass by in shared memory, read by all points of a
// block at once. In the second half of the backward pass tokens have threads,
// and points pass by.
namespace propagator::kernels {
namespace {

using namespace cross;

constexpr int kPoints = 16;       // of a tile in shared memory
constexpr int64_t kBlocks = 528;  // four for each multiprocessor of an H200
constexpr int64_t kMostParts = 16;

// The sums so far of a point: Σ w t_m v and Σ w t_m, with w over exp(peak) and
// the scores of the token that has it as centres.
template <class F>
struct Sums {
  Rows<F> of_values = {};
  float of_terms[F::kRows] = {};
  float centres[F::kRows] = {};
  float peak = -INFINITY;

  // A jet x with other centres, d away.
  template <class Combine>
  __device__ void move(const Job& job, const float (&d)[F::kRows],
                       const Combine& combine) {
#pragma unroll
    for (int n = 0; n < F::kSecond; ++n) {
      const int x2 = 1 + F::kFirst + n;
      float squares = 0;
#pragma unroll
      for (int r = 1; r <= F::kFirst; ++r) {
        const float sign = job.signs[n][r - 1];
        combine(x2, r, -sign * d[r]);
        squares += sign * d[r] * d[r];
      }
      combine(x2, 0, 0.5f * squares - d[x2]);
    }
#pragma unroll
    for (int r = 1; r <= F::kFirst; ++r) combine(r, 0, -d[r]);
  }
  __device__ void recentre(const Job& job, const float (&d)[F::kRows]) {
    move(job, d, [&](int to, int of, float factor) {
      of_terms[to] += factor * of_terms[of];
      add(factor, of_values.at[of], of_values.at[to]);
    });
#pragma unroll
    for (int m = 1; m < F::kRows; ++m) centres[m] += d[m];
  }
  __device__ void scale(float factor) {
#pragma unroll
    for (int m = 0; m < F::kRows; ++m) {
      of_terms[m] *= factor;
#pragma unroll
      for (int c = 0; c < kPart; ++c) of_values.at[m][c] *= factor;
    }
  }
  __device__ void take(const Job& job, float (&s)[F::kRows],
                       const float (&value)[kPart]) {
    if (s[0] > peak) {
      float d[F::kRows];
#pragma unroll
      for (int m = 1; m < F::kRows; ++m) d[m] = s[m] - centres[m];
      scale(expf(peak - s[0]));
      recentre(job, d);
      peak = s[0];
    }
    const float w = expf(s[0] - peak);
    centre<F>(job, centres, s);
    of_terms[0] += w;
    add(w, value, of_values.at[0]);
#pragma unroll
    for (int m = 1; m < F::kRows; ++m) {
      of_terms[m] += w * s[m];
      add(w * s[m], value, of_values.at[m]);
    }
  }
  // In the end the centres are the means, so that Σ w t_m is 1, 0, 0.
  __device__ void finish(const Job& job) {
    scale(1 / of_terms[0]);
    float d[F::kRows];
#pragma unroll
    for (int r = 1; r <= F::kFirst; ++r) d[r] = of_terms[r];
#pragma unroll
    for (int n = 0; n < F::kSecond; ++n) {
      float squares = 0;
#pragma unroll
      for (int r = 1; r <= F::kFirst; ++r) {
        squares += job.signs[n][r - 1] * d[r] * d[r];
      }
      d[1 + F::kFirst + n] = of_terms[1 + F::kFirst + n] - 0.5f * squares;
    }
    recentre(job, d);
  }
};

template <class F>
__global__ void __launch_bounds__(kThreads)
    forward(Job job, float* out, float* sums) {
  const auto& of = job.of;
  const Seat<F> seat(of.points);
  const int64_t row = of.points * of.width;
  const int64_t place = seat.safe() * of.width + seat.channel;
  Rows<F> query;
  query.read(of.q + place, row, job.scale);
  Sums<F> so_far;
  for_tokens(job, seat,
             [&](const float(&key)[kPart], const float(&value)[kPart]) {
               float s[F::kRows];
               query.meet(key, s);
               so_far.take(job, s, value);
             });
  const float log_sum = so_far.peak + logf(so_far.of_terms[0]);
  so_far.finish(job);
  if (!seat.is_there()) return;
  so_far.of_values.write(out + place, row);
  if (!seat.leads()) return;
  float* to = sums + (seat.at * gridDim.y + blockIdx.y) * F::kRows;
  to[0] = log_sum;
#pragma unroll
  for (int m = 1; m < F::kRows; ++m) to[m] = so_far.centres[m];
}

// What the gradient b by the answer g takes away from those by w t_m: by the
// sum of w, which is 1, Σ g_m b_m; by the centres, g_0 b_1 ± g_1 b_2 and g_0
// b_2.
template <class F>
__device__ void taken_away(const Job& job, const Rows<F>& g, const Rows<F>& b,
                           float (&taken)[F::kRows]) {
  const auto dots = [&](int of_g, int of_b) {
    return lanes_sum<F::kLanes>(dot(g.at[of_g], b.at[of_b]));
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

template <class F>
__global__ void __launch_bounds__(kThreads)
    backward_of_queries(Job job, JetCrossBackward with) {
  const auto& of = job.of;
  const Seat<F> seat(of.points);
  const int64_t row = of.points * of.width;
  const int64_t place = seat.safe() * of.width + seat.channel;
  const int64_t of_point = (seat.safe() * gridDim.y + blockIdx.y) * F::kRows;
  Rows<F> grad;
  float sums[F::kRows], taken[F::kRows];
#pragma unroll
  for (int m = 0; m < F::kRows; ++m) sums[m] = with.sums[of_point + m];
  grad.read(with.grad + place, row, 1);
  {
    Rows<F> g;
    g.read(with.out + place, row, 1);
    taken_away<F>(job, g, grad, taken);
  }
  if (seat.is_there() && seat.leads()) {
#pragma unroll
    for (int m = 0; m < F::kRows; ++m) with.taken[of_point + m] = taken[m];
  }
  Rows<F> query, by_query = {};
  query.read(of.q + place, row, job.scale);
  for_tokens(job, seat,
             [&](const float(&key)[kPart], const float(&value)[kPart]) {
               float s[F::kRows], y[F::kRows];
               grad.meet(value, y);
#pragma unroll
               for (int m = 0; m < F::kRows; ++m) y[m] -= taken[m];
               query.meet(key, s);
               centre<F>(job, sums, s);
               slopes<F>(job, expf(s[0] - sums[0]), s, y);
#pragma unroll
               for (int m = 0; m < F::kRows; ++m)
                 add(y[m], key, by_query.at[m]);
             });
  if (!seat.is_there()) return;
#pragma unroll
  for (int m = 0; m < F::kRows; ++m) {
#pragma unroll
    for (int c = 0; c < kPart; ++c) by_query.at[m][c] *= job.scale;
  }
  by_query.write(with.dq + place, row);
}

// A tile of points in shared memory.
template <class F>
struct Points {
  float queries[kPoints][F::kRows][F::kDepth];  // over √D
  float grads[kPoints][F::kRows][F::kDepth];
  float sums[kPoints][F::kRows], taken[kPoints][F::kRows];

  __device__ void copy(const Job& job, const JetCrossBackward& with,
                       int64_t first) {
    const auto& of = job.of;
    constexpr int kPacks = F::kDepth / 4;
    for (int n = threadIdx.x; n < kPoints * F::kRows * kPacks; n += kThreads) {
      const int i = n / (F::kRows * kPacks), m = n / kPacks % F::kRows;
      const int c = n % kPacks * 4;
      if (first + i >= of.points) continue;
      const int64_t place = (m * of.points + first + i) * of.width +
                            int64_t{blockIdx.y} * F::kDepth + c;
      auto four = load_pack<Pack<float>>(of.q + place);
#pragma unroll
      for (int x = 0; x < 4; ++x) four.at[x] *= job.scale;
      store_pack(four, &queries[i][m][c]);
      store_pack(load_pack<Pack<float>>(with.grad + place), &grads[i][m][c]);
    }
    for (int n = threadIdx.x; n < kPoints * F::kRows; n += kThreads) {
      const int i = n / F::kRows, m = n % F::kRows;
      if (first + i >= of.points) continue;
      const int64_t place =
          ((first + i) * gridDim.y + blockIdx.y) * F::kRows + m;
      sums[i][m] = with.sums[place];
      taken[i][m] = with.taken[place];
    }
  }
};

template <class F>
__global__ void __launch_bounds__(kThreads)
    backward_of_tokens(Job job, JetCrossBackward with, int64_t points_of_part) {
  __shared__ __align__(16) Points<F> points;
  const auto& of = job.of;
  const Seat<F> seat(of.tokens);
  const int64_t place = seat.safe() * of.width + seat.channel;
  float key[kPart], value[kPart], by_key[kPart] = {}, by_value[kPart] = {};
  read_part(of.k + place, key);
  read_part(of.v + place, value);
  const int64_t begin = int64_t{blockIdx.z} * points_of_part;
  const int64_t end = min(begin + points_of_part, of.points);
  for (int64_t first = begin; first < end; first += kPoints) {
    __syncthreads();
    points.copy(job, with, first);
    __syncthreads();
    const int count = static_cast<int>(min(int64_t{kPoints}, end - first));
    for (int i = 0; i < count; ++i) {
      Rows<F> query, grad;
      float s[F::kRows], y[F::kRows];
      query.read(&points.queries[i][0][seat.part * kPart], F::kDepth, 1);
      grad.read(&points.grads[i][0][seat.part * kPart], F::kDepth, 1);
      query.meet(key, s);
      grad.meet(value, y);
#pragma unroll
      for (int m = 0; m < F::kRows; ++m) y[m] -= points.taken[i][m];
      centre<F>(job, points.sums[i], s);
      const float w = expf(s[0] - points.sums[i][0]);
      slopes<F>(job, w, s, y);
      add(w, grad.at[0], by_value);
      add(y[0], query.at[0], by_key);
#pragma unroll
      for (int m = 1; m < F::kRows; ++m) {
        add(y[m], query.at[m], by_key);
        add(w * s[m], grad.at[m], by_value);
      }
    }
  }
  if (!seat.is_there()) return;
  const int64_t size = of.tokens * of.width;
  float* to = with.parts + 2 * size * blockIdx.z + place;
  write_part(by_key, to);
  write_part(by_value, to + size);
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
    switch (depth) {
      case 8:
        work(Form<F::kFirst, F::kSecond, 1>());
        return true;
      case 16:
        work(Form<F::kFirst, F::kSecond, 2>());
        return true;
      case 32:
        work(Form<F::kFirst, F::kSecond, 4>());
        return true;
      default:
        return false;
    }
  };
  return of_depth(Form<0, 0, 1>()) || of_depth(Form<2, 1, 1>()) ||
         of_depth(Form<2, 2, 1>()) || of_depth(Form<3, 1, 1>()) ||
         of_depth(Form<3, 2, 1>());
}

template <class F>
unsigned blocks_of(int64_t count) {
  return static_cast<unsigned>(blocks_for(count, kThreads / F::kLanes));
}

}  // namespace

bool jet_cross_attention_has(int64_t depth, const JetOrders& orders) {
  return with_form(depth, orders, [](auto) {});
}

void launch_jet_cross_attention(const JetCross& of, float* out, float* sums,
                                cudaStream_t stream) {
  with_form(of.depth, of.orders, [&](auto form) {
    using F = decltype(form);
    const dim3 grid(blocks_of<F>(of.points), static_cast<unsigned>(of.heads()));
    forward<F><<<grid, kThreads, 0, stream>>>(job_of(of), out, sums);
  });
}

int64_t jet_cross_attention_parts(const JetCross& of) {
  const int64_t lanes = of.depth / kPart;
  const int64_t blocks = blocks_for(of.tokens, kThreads / lanes) * of.heads();
  const int64_t most = blocks_for(of.points, kPoints);
  return std::clamp(blocks_for(kBlocks, blocks), int64_t{1},
                    std::min(kMostParts, most));
}

void launch_jet_cross_attention_backward(const JetCross& of,
                                         const JetCrossBackward& with,
                                         cudaStream_t stream) {
  with_form(of.depth, of.orders, [&](auto form) {
    using F = decltype(form);
    const auto job = job_of(of);
    const auto heads = static_cast<unsigned>(of.heads());
    const int64_t parts = jet_cross_attention_parts(of);
    backward_of_queries<F>
        <<<dim3(blocks_of<F>(of.points), heads), kThreads, 0, stream>>>(job,
                                                                        with);
    const dim3 grid(blocks_of<F>(of.tokens), heads,
                    static_cast<unsigned>(parts));
    backward_of_tokens<F><<<grid, kThreads, 0, stream>>>(
        job, with, blocks_for(of.points, parts));
  });
}

}  // namespace propagator::kernels
