#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "propagator/kernels/greens/green_attention.h"
#include "propagator/kernels/greens/green_tiles.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;

// Rows less the first, and the same as columns, filled up with zeros.
struct Rows {
  Tensor rows, across;

  Rows(const Tensor& x, int64_t length)
      : rows(x - x.narrow(2, 0, 1)),
        across(torch::constant_pad_nd(rows, {0, 0, 0, length - x.size(2)})
                   .transpose(2, 3)
                   .contiguous()) {}
};

template <class Real>
GreenTiles<Real> tiles_of(const GreenInputs& in, const Rows& k, const Rows& v) {
  return {.heads = in.q.size(1),
          .query_count = in.q.size(2),
          .key_count = in.k.size(2),
          .depth = in.q.size(3),
          .query = in.q.data_ptr<Real>(),
          .key = k.rows.data_ptr<Real>(),
          .value = v.rows.data_ptr<Real>(),
          .key_across = k.across.data_ptr<Real>(),
          .value_across = v.across.data_ptr<Real>(),
          .query_places = in.query_places.data_ptr<Real>(),
          .key_places = in.key_places.data_ptr<Real>(),
          .query_length = in.query_places.size(2),
          .key_length = in.key_places.size(2),
          .settings = in.settings,
          .green = {in.settings, in.parameters.data_ptr<Real>()},
          .scale = static_cast<Real>(
              1 / std::sqrt(static_cast<double>(in.q.size(3))))};
}

// Calls work(b, n) for every case and each of `count` parts, on all threads:
// from both ends in turn, for later queries see more keys. A thread is worth
// waking for `kWorthAThread` of all `products` of a case.
constexpr int64_t kWorthAThread = 1 << 18;
template <class Work>
void for_parts(int64_t cases, int64_t count, int64_t products,
               const Work& work) {
  const int64_t grain = std::max<int64_t>(
      1, kWorthAThread * count / std::max<int64_t>(1, products));
  at::parallel_for(0, cases * count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t n = at % count;
      work(at / count, n % 2 == 0 ? n / 2 : count - 1 - n / 2);
    }
  });
}

// One run of queries against all keys.
template <class Real>
void forward_queries(const GreenTiles<Real>& g, int64_t b, int64_t m, Real* out,
                     Real* log_sum) {
  constexpr auto kNever = -std::numeric_limits<Real>::infinity();
  const auto heads = static_cast<size_t>(g.heads);
  std::vector<Real> logits(g.kSize), weights(g.kSize);
  std::vector<Real> peak(heads * kTileQueries, kNever);
  std::vector<Real> total(heads * kTileQueries, Real(0));
  for (int64_t n = 0; n < g.key_tiles(); ++n) {
    const auto t = g.tile(m, n);
    if (!g.logits(b, t, logits.data())) continue;
    for (int64_t h = 0; h < g.heads; ++h) {
      Real* rows = g.of_queries(out, b, h) + t.query * g.depth;
      g.scores(b, h, t, logits.data(), weights.data());
      for (int64_t i = 0; i < t.queries; ++i) {
        const auto at = static_cast<size_t>(h * kTileQueries + i);
        g.soften(weights.data() + i * kTileKeys, t.columns, peak[at], total[at],
                 rows + i * g.depth);
      }
      g.mix(b, h, t, weights.data(), rows);
    }
  }
  const auto t = g.tile(m, 0);
  for (int64_t h = 0; h < g.heads; ++h) {
    for (int64_t i = 0; i < t.queries; ++i) {
      const auto at = static_cast<size_t>(h * kTileQueries + i);
      Real* row = g.of_queries(out, b, h) + (t.query + i) * g.depth;
      for (int64_t c = 0; c < g.depth; ++c) row[c] /= total[at];
      log_sum[(b * g.heads + h) * g.query_count + t.query + i] =
          peak[at] + std::log(total[at]);
    }
  }
}

using ParameterSums = double[kGreenParameters];

// What backward takes, and where gradients are added.
template <class Real>
struct Backward {
  GreenTiles<Real> g;
  const Real *grad, *log_sum, *delta;
  Real *dq, *dk, *dv;
  ParameterSums* sums;  // of each head and run of queries, or null

  struct Room {
    std::vector<Real> logits = std::vector<Real>(GreenTiles<Real>::kSize);
    std::vector<Real> weights = logits, slopes = logits;
  };

  // False if no key of the tile is visible.
  bool begin(int64_t b, const GreenTile& t, Room& room) const {
    return g.logits(b, t, room.logits.data());
  }
  void begin_head(int64_t b, int64_t h, const GreenTile& t, Room& room) const {
    g.weights_and_slopes(b, h, t, room.logits.data(), grad, log_sum, delta,
                         room.weights.data(), room.slopes.data());
  }
  void to_queries(int64_t b, int64_t h, const GreenTile& t, Room& room) const {
    g.add_query_gradient(b, h, t, room.slopes.data(),
                         g.of_queries(dq, b, h) + t.query * g.depth);
    if (sums == nullptr) return;
    const int64_t run = t.query / kTileQueries;
    g.add_parameter_gradient(b, t, room.slopes.data(),
                             sums[(b * g.heads + h) * g.query_tiles() + run]);
  }
  void to_keys(int64_t b, int64_t h, const GreenTile& t, Room& room) const {
    const int64_t at = t.key * g.depth;
    g.add_key_gradient(t, room.slopes.data(), g.of_queries(g.query, b, h),
                       g.of_keys(dk, b, h) + at);
    g.add_key_gradient(t, room.weights.data(), g.of_queries(grad, b, h),
                       g.of_keys(dv, b, h) + at);
  }

  // All gradients of one head.
  void head(int64_t b, int64_t h) const {
    Room room;
    for (int64_t m = 0; m < g.query_tiles(); ++m) {
      for (int64_t n = 0; n < g.key_tiles(); ++n) {
        const auto t = g.tile(m, n);
        if (!begin(b, t, room)) continue;
        begin_head(b, h, t, room);
        to_queries(b, h, t, room);
        to_keys(b, h, t, room);
      }
    }
  }

  // Those of one run of queries, and those of one run of keys.
  void queries(int64_t b, int64_t m) const {
    Room room;
    for (int64_t n = 0; n < g.key_tiles(); ++n) {
      const auto t = g.tile(m, n);
      if (!begin(b, t, room)) continue;
      for (int64_t h = 0; h < g.heads; ++h) {
        begin_head(b, h, t, room);
        to_queries(b, h, t, room);
      }
    }
  }
  void keys(int64_t b, int64_t n) const {
    Room room;
    for (int64_t m = 0; m < g.query_tiles(); ++m) {
      const auto t = g.tile(m, n);
      if (!begin(b, t, room)) continue;
      for (int64_t h = 0; h < g.heads; ++h) {
        begin_head(b, h, t, room);
        to_keys(b, h, t, room);
      }
    }
  }

  // Heads, if there is one for each thread; else runs of queries and then of
  // keys, for which all weights are computed twice. Sums are in the same order.
  void run(int64_t cases) const {
    if (cases * g.heads >= at::get_num_threads()) {
      return for_parts(cases, g.heads, g.products(),
                       [&](int64_t b, int64_t h) { head(b, h); });
    }
    for_parts(cases, g.query_tiles(), g.products(),
              [&](int64_t b, int64_t m) { queries(b, m); });
    for_parts(cases, g.key_tiles(), g.products(),
              [&](int64_t b, int64_t n) { keys(b, n); });
  }
};

}  // namespace

GreenForward green_attention_cpu(const GreenInputs& in) {
  const int64_t length = in.key_places.size(2);
  const Rows k(in.k, length), v(in.v, length);
  const GreenForward forward{
      torch::zeros_like(in.q),
      torch::empty({in.q.size(0), in.q.size(1), in.q.size(2)}, in.q.options())};
  AT_DISPATCH_FLOATING_TYPES(in.q.scalar_type(), "green_attention", [&] {
    const auto g = tiles_of<scalar_t>(in, k, v);
    auto* out = forward.out.data_ptr<scalar_t>();
    auto* log_sum = forward.log_sum.data_ptr<scalar_t>();
    for_parts(
        in.q.size(0), g.query_tiles(), g.products(),
        [&](int64_t b, int64_t m) { forward_queries(g, b, m, out, log_sum); });
  });
  forward.out.add_(in.v.narrow(2, 0, 1));
  return forward;
}

GreenGradients green_attention_backward_cpu(const Tensor& grad,
                                            const GreenInputs& in,
                                            const GreenForward& forward) {
  const int64_t length = in.key_places.size(2);
  const Rows k(in.k, length), v(in.v, length);
  const auto delta = (grad * (forward.out - in.v.narrow(2, 0, 1))).sum(-1);
  GreenGradients d{torch::zeros_like(in.q), torch::zeros_like(in.k),
                   torch::zeros_like(in.v), Tensor()};
  AT_DISPATCH_FLOATING_TYPES(in.q.scalar_type(), "green_attention", [&] {
    const auto g = tiles_of<scalar_t>(in, k, v);
    const int64_t cases = in.q.size(0);
    const auto parts = torch::zeros(
        {cases * g.heads * g.query_tiles(), kGreenParameters}, torch::kFloat64);
    const Backward<scalar_t> backward{
        .g = g,
        .grad = grad.data_ptr<scalar_t>(),
        .log_sum = forward.log_sum.data_ptr<scalar_t>(),
        .delta = delta.template data_ptr<scalar_t>(),
        .dq = d.q.data_ptr<scalar_t>(),
        .dk = d.k.data_ptr<scalar_t>(),
        .dv = d.v.data_ptr<scalar_t>(),
        .sums = in.learns ? reinterpret_cast<ParameterSums*>(
                                parts.template data_ptr<double>())
                          : nullptr};
    backward.run(cases);
    d.q.mul_(g.scale);
    d.k.mul_(g.scale);
    if (in.learns) d.parameters = parts.sum(0).to(grad.scalar_type());
  });
  return d;
}

}  // namespace propagator::kernels
