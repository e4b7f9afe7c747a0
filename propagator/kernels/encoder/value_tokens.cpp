#include "propagator/kernels/encoder/value_tokens.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <bit>

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/encoder/stack_tile.h"
#include "propagator/kernels/list_function.h"
#include "propagator/kernels/normal_cdf.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using Tensors = torch::autograd::variable_list;

constexpr int64_t kRows = 32;        // at a time
constexpr int64_t kRowsOfPart = 64;  // that sums gradients by itself, at least
constexpr int64_t kMostParts = 16;

// All tensors contiguous and without a graph.
template <class Real>
struct ValueMaps {
  ValueTokenWeights w;
  int64_t tokens, width;

  // Values and slopes of gelu stay in `kept` (2, rows, C).
  Tensor forward(const Tensor& x, const Tensor& kept) const {
    const int64_t rows = x.numel(), c = width;
    const auto y = torch::empty({x.size(0), tokens, c}, x.options());
    const auto across = w.out.t().contiguous();
    static const ScaledErfc scaled;
    const Real *v = w.in.data_ptr<Real>(), *b = w.in_bias.data_ptr<Real>();
    const Real *from = x.data_ptr<Real>(), *offset = w.offsets.data_ptr<Real>();
    Real* active = kept.data_ptr<Real>();
    Real *slope = active + rows * c, *to = y.data_ptr<Real>();
    at::parallel_for(0, blocks(rows), 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin * kRows; n < std::min(end * kRows, rows); ++n) {
        Real *value = active + n * c, *rate = slope + n * c;
        for (int64_t k = 0; k < c; ++k) {
          const Real at = from[n] * v[k] + b[k];
          const auto normal = normal_at(at, scaled);
          value[k] = at * normal.below;
          rate[k] = normal.below + at * normal.density;
        }
        std::copy_n(offset + n % tokens * c, c, to + n * c);
      }
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kRows, at = first * c;
        stack::multiply<Real>(std::min(kRows, rows - first), c, c, active + at,
                              across.data_ptr<Real>(), to + at, c, to + at);
      }
    });
    return y;
  }

  // The gradients of in, in_bias, out and offsets, one after the other; that of
  // x goes to `dx` if it is defined.
  Tensor backward(const Tensor& x, const Tensor& kept, const Tensor& dy,
                  const Tensor& dx) const {
    const int64_t rows = x.numel(), c = width;
    const int64_t parts = std::min<int64_t>(
        kMostParts, std::bit_floor(static_cast<uint64_t>(
                        std::max<int64_t>(1, rows / kRowsOfPart))));
    const auto sums = torch::zeros({parts, c * (2 + c + tokens)}, x.options());
    at::parallel_for(0, parts, 1, [&](int64_t from, int64_t to) {
      std::vector<Real> room(static_cast<size_t>(kRows * c));
      for (int64_t part = from; part < to; ++part) {
        const int64_t end = blocks(rows) * (part + 1) / parts;
        for (int64_t n = blocks(rows) * part / parts; n < end; ++n) {
          block_backward(n * kRows, std::min(kRows, rows - n * kRows), x, kept,
                         dy, dx, sums[part].template data_ptr<Real>(),
                         room.data());
        }
      }
    });
    return sums.sum(0);
  }

 private:
  static int64_t blocks(int64_t rows) { return (rows + kRows - 1) / kRows; }

  void block_backward(int64_t first, int64_t rows, const Tensor& x,
                      const Tensor& kept, const Tensor& dy, const Tensor& dx,
                      Real* sums, Real* room) const {
    const int64_t c = width;
    const Real* d = dy.data_ptr<Real>() + first * c;
    const Real* active = kept.data_ptr<Real>() + first * c;
    const Real* slope = active + kept.stride(0);
    const Real* from = x.data_ptr<Real>() + first;
    Real *din = sums, *dbias = din + c, *dout = dbias + c;
    Real* doffsets = dout + c * c;
    stack::add_weights(rows, c, c, d, active, dout);
    stack::multiply<Real>(rows, c, c, d, w.out.data_ptr<Real>(), nullptr, 0,
                          room);
    for (int64_t r = 0; r < rows; ++r) {
      Real* here = room + r * c;
      for (int64_t k = 0; k < c; ++k) here[k] *= slope[r * c + k];
      stack::add_scaled(din, from[r], here, c);
      stack::add_scaled(dbias, Real(1), here, c);
      stack::add_scaled(doffsets + (first + r) % tokens * c, Real(1), d + r * c,
                        c);
      if (dx.defined()) {
        dx.data_ptr<Real>()[first + r] =
            stack::dot<Real>(here, w.in.data_ptr<Real>(), c);
      }
    }
  }
};

template <class Real>
Tensor fused_tokens(const Tensor& x, const ValueTokenWeights& weights) {
  const auto plain = [](const Tensor& one) {
    return one.detach().contiguous();
  };
  const Tensors inputs{x, weights.in, weights.in_bias, weights.out,
                       weights.offsets};
  const ValueMaps<Real> maps{{plain(weights.in), plain(weights.in_bias),
                              plain(weights.out), plain(weights.offsets)},
                             x.size(1),
                             weights.out.size(0)};
  const auto values = plain(x);
  const auto kept = torch::empty({2, x.numel(), maps.width}, values.options());
  const auto y = maps.forward(values, kept);
  if (!torch::autograd::compute_requires_grad(inputs)) return y;
  ListFunction::record(
      {y}, inputs,
      [maps, values, kept](const Tensors& gradients,
                           const ListFunction& node) -> Tensors {
        const auto dx = node.wants(0) ? torch::empty_like(values) : Tensor();
        GradientParts parts(
            maps.backward(values, kept, gradients[0].contiguous(), dx));
        Tensors all{dx};
        for (const auto* one :
             {&maps.w.in, &maps.w.in_bias, &maps.w.out, &maps.w.offsets}) {
          all.push_back(parts.like(*one));
        }
        return all;
      });
  return y;
}

}  // namespace

bool has_value_tokens(const Tensor& x, const ValueTokenWeights& w) {
  const auto type = x.scalar_type();
  return x.is_cpu() && x.numel() > 0 && !autocast_enabled(x.device()) &&
         (type == torch::kFloat32 || type == torch::kFloat64) &&
         w.out.size(0) % 16 == 0 && w.out.scalar_type() == type &&
         w.offsets.scalar_type() == type;
}

Tensor value_tokens_reference(const Tensor& x, const ValueTokenWeights& w) {
  return torch::linear(
             torch::gelu(torch::linear(x.unsqueeze(-1), w.in, w.in_bias)),
             w.out) +
         w.offsets;
}

Tensor value_tokens(const Tensor& x, const ValueTokenWeights& w) {
  if (!has_value_tokens(x, w)) return value_tokens_reference(x, w);
  return x.scalar_type() == torch::kFloat32 ? fused_tokens<float>(x, w)
                                            : fused_tokens<double>(x, w);
}

}  // namespace propagator::kernels
