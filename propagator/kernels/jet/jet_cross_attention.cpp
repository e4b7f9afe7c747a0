#include "propagator/kernels/jet/jet_cross_attention.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>
#include <vector>

#include "propagator/kernels/cuda.h"
#include "propagator/kernels/jet/jet_cross_tile.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;

// The gradients by keys and values are summed in so many parts, whatever the
// number of threads.
constexpr int64_t kParts = 8;

CrossShape shape_of(const Tensor& q, const Tensor& k, int64_t heads,
                    const JetOrders& orders) {
  return {q.size(1), k.size(0), q.size(2), heads, orders};
}

// What a point keeps of its tokens, (N, H, M): log Σ exp s_0, then centres.
template <class Real>
Real* sums_of(const Tensor& sums, int64_t point, int64_t head) {
  return sums.data_ptr<Real>() + (point * sums.size(1) + head) * sums.size(2);
}

template <class Real>
void forward_all(const Tensor& q, const Tensor& k, const Tensor& v,
                 const CrossShape& s, Tensor& out, const Tensor& sums) {
  const auto keys = cross_tokens<Real>(k, s), values = cross_tokens<Real>(v, s);
  const int64_t tiles = (s.points + kCrossPoints - 1) / kCrossPoints;
  at::parallel_for(0, tiles, 4, [&](int64_t begin, int64_t end) {
    CrossTile<Real> tile(s, keys, values);
    for (int64_t at = begin * s.heads; at < end * s.heads; ++at) {
      const int64_t first = at / s.heads * kCrossPoints, h = at % s.heads;
      tile.choose(first, h);
      tile.ask(q);
      for (int64_t i = 0; i < tile.count(); ++i) {
        tile.soften(i, sums_of<Real>(sums, first + i, h));
      }
      tile.mix();
      tile.write(tile.answers(), 1, out);
    }
  });
}

// What the gradient b by the answer g takes away from those by w t_m: by the
// sum of w, which is 1, Σ g_m b_m; by the centres, g_0 b_1 ± g_1 b_2 and g_0
// b_2.
template <class Real>
void taken_away(const Real* g, const Real* b, int64_t depth, const JetOrders& o,
                Real* taken) {
  const auto dot = [&](int64_t of_g, int64_t of_b) {
    return std::inner_product(g + of_g * depth, g + (of_g + 1) * depth,
                              b + of_b * depth, Real(0));
  };
  for (int64_t m = 0; m < o.rows(); ++m) taken[m] = dot(0, m);
  for (int64_t m = 1; m < o.rows(); ++m) taken[0] += dot(m, m);
  for (int64_t r = 1; r <= o.second; ++r) {
    taken[r] += static_cast<Real>(o.sign(r)) * dot(r, o.second_row(r));
  }
}

// One part of the points; by_keys and by_values (H, T, D) are added to.
template <class Real>
struct Backward {
  const Tensor &q, &out, &grad;
  const CrossShape& s;
  const Tensor& sums;
  Tensor& dq;

  void run(CrossTile<Real>& tile, int64_t begin, int64_t end, Real* by_keys,
           Real* by_values) const {
    const int64_t size = s.rows() * s.depth();
    std::vector<Real> g(static_cast<size_t>(kCrossPoints * size));
    std::vector<Real> taken(static_cast<size_t>(s.rows()));
    for (int64_t at = begin * s.heads; at < end * s.heads; ++at) {
      const int64_t first = at / s.heads * kCrossPoints, h = at % s.heads;
      tile.choose(first, h);
      tile.ask(q);
      tile.read(out, 1, g);
      tile.read(grad, 1, tile.answers());
      tile.meet_values();
      for (int64_t i = 0; i < tile.count(); ++i) {
        tile.weigh(i, sums_of<Real>(sums, first + i, h));
        taken_away(g.data() + i * size, tile.answer(i), s.depth(), s.orders,
                   taken.data());
        tile.descend(i, taken.data());
      }
      tile.spread(by_keys, by_values);
      tile.write(tile.queries(), tile.scale(), dq);
    }
  }
};

template <class Real>
JetCrossGradients backward_all(const Tensor& q, const Tensor& k,
                               const Tensor& v, const Tensor& out,
                               const Tensor& grad, const CrossShape& s,
                               const Tensor& sums) {
  const auto keys = cross_tokens<Real>(k, s), values = cross_tokens<Real>(v, s);
  auto dq = torch::empty_like(q);
  const auto parts =
      torch::zeros({2, kParts, s.heads, s.tokens, s.depth()}, q.options());
  const Backward<Real> work{q, out, grad, s, sums, dq};
  const int64_t tiles = (s.points + kCrossPoints - 1) / kCrossPoints;
  const int64_t size = s.tokens * s.width;
  Real* by_keys = parts.data_ptr<Real>();
  at::parallel_for(0, kParts, 1, [&](int64_t begin, int64_t end) {
    CrossTile<Real> tile(s, keys, values);
    for (int64_t part = begin; part < end; ++part) {
      work.run(tile, part * tiles / kParts, (part + 1) * tiles / kParts,
               by_keys + part * size, by_keys + (kParts + part) * size);
    }
  });
  const auto sum = [&](int64_t which) {
    return parts[which].sum(0).transpose(0, 1).flatten(1);
  };
  return {dq, sum(0), sum(1)};
}

class JetCrossAttention : public torch::autograd::Function<JetCrossAttention> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context,
                        const Tensor& q, const Tensor& k, const Tensor& v,
                        int64_t heads, int64_t packed) {
    const auto queries = q.contiguous(), keys = k.contiguous();
    const auto values = v.contiguous();
    const auto orders = JetOrders::unpacked(packed);
    auto out = torch::empty_like(queries);
    const auto sums = torch::empty({q.size(1), heads, q.size(0)}, q.options());
    if (q.is_cuda()) {
      jet_cross_attention_cuda(queries, keys, values, orders, out, sums);
    } else {
      AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "jet_cross_attention", [&] {
        forward_all<scalar_t>(queries, keys, values,
                              shape_of(q, k, heads, orders), out, sums);
      });
    }
    context->save_for_backward({queries, keys, values, out, sums});
    context->saved_data["heads"] = heads;
    context->saved_data["orders"] = packed;
    return out;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3];
    const int64_t heads = context->saved_data["heads"].toInt();
    const auto orders =
        JetOrders::unpacked(context->saved_data["orders"].toInt());
    const auto grad = gradients[0].contiguous();
    JetCrossGradients d;
    if (q.is_cuda()) {
      d = jet_cross_attention_backward_cuda(q, k, v, out, saved[4], grad,
                                            orders);
    } else {
      AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "jet_cross_attention", [&] {
        d = backward_all<scalar_t>(q, k, v, out, grad,
                                   shape_of(q, k, heads, orders), saved[4]);
      });
    }
    return {d.q, d.k, d.v, Tensor(), Tensor()};
  }
};

}  // namespace

bool has_jet_cross_attention(const Tensor& q, int64_t heads,
                             const JetOrders& orders) {
  const int64_t depth = q.size(2) / heads;
  if (q.is_cuda()) return jet_cross_attention_cuda_fits(q, depth, orders);
  const int64_t whole = kVectorBytes / q.element_size();
  return q.is_cpu() && depth % whole == 0;
}

Tensor jet_cross_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                           int64_t heads, const JetOrders& orders) {
  return JetCrossAttention::apply(q, k, v, heads, orders.packed());
}

}  // namespace propagator::kernels
