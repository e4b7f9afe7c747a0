#include "propagator/kernels/jet/jet_wavelet.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "propagator/kernels/cuda.h"
#include "propagator/kernels/sincos.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;

constexpr int64_t kBlock = 256;  // entries whose sines stay in the L1 cache

// F = w₁ sin + w₂ cos and G = F'. Then F'' = -F and F''' = -G, so that
//   y_0 = F,  y_1 = G x_1,  y_2 = G x_2 - F x_1² / 2,
// where x_2 and x_1² / 2 may be sums over directions.
template <class Real>
struct Block {
  Real sine[kBlock], cosine[kBlock];  // of x_0
  Real f[kBlock], g[kBlock];
  int64_t count;

  Block(const Real* x, int64_t n, Real w1, Real w2) : count(n) {
    sincos(x, n, sine, cosine);
    for (int64_t i = 0; i < n; ++i) {
      f[i] = w1 * sine[i] + w2 * cosine[i];
      g[i] = w1 * cosine[i] - w2 * sine[i];
    }
  }
};

template <class Real>
void forward_block(const Block<Real>& b, const Real* x, Real* y, int64_t stride,
                   const JetOrders& o) {
  std::copy_n(b.f, b.count, y);
  for (int64_t r = 1; r <= o.first; ++r) {
    const Real* x1 = x + r * stride;
    Real* y1 = y + r * stride;
    for (int64_t i = 0; i < b.count; ++i) y1[i] = b.g[i] * x1[i];
  }
  for (int64_t r = 1; r <= o.second; ++r) {
    const Real* x1 = x + r * stride;
    const Real* x2 = x + o.second_row(r) * stride;
    Real* y2 = y + o.second_row(r) * stride;
    const Real half = Real(0.5) * static_cast<Real>(o.sign(r));
    if (o.opens(r)) {
      for (int64_t i = 0; i < b.count; ++i) y2[i] = b.g[i] * x2[i];
    }
    for (int64_t i = 0; i < b.count; ++i) {
      y2[i] -= half * b.f[i] * x1[i] * x1[i];
    }
  }
}

struct WeightSums {
  double w1 = 0, w2 = 0;
};

// With a = Σ dy_1 x_1 + dy_2 x_2 and c = Σ dy_2 x_1² over directions (or, if
// x_2 is a sum, one dy_2 x_2 and Σ ±dy_2 x_1²):
//   dx_0 = G dy_0 - F a - G c / 2,  dx_1 = G dy_1 - F x_1 dy_2,  dx_2 = G dy_2,
//   dw₁ = (dy_0 - c / 2) sin + a cos,  dw₂ = (dy_0 - c / 2) cos - a sin.
template <class Real>
WeightSums backward_block(const Block<Real>& b, const Real* x, const Real* dy,
                          Real* dx, int64_t stride, const JetOrders& o) {
  const int64_t count = b.count;
  Real a[kBlock] = {}, c[kBlock] = {};
  for (int64_t r = 1; r <= o.first; ++r) {
    const Real* x1 = x + r * stride;
    const Real* d1 = dy + r * stride;
    Real* e1 = dx + r * stride;
    for (int64_t i = 0; i < count; ++i) {
      a[i] += d1[i] * x1[i];
      e1[i] = b.g[i] * d1[i];
    }
    const int64_t second = o.second_row(r) * stride;
    if (second == 0) continue;
    const Real* d2 = dy + second;
    const Real sign = static_cast<Real>(o.sign(r));
    for (int64_t i = 0; i < count; ++i) {
      const Real t = sign * x1[i] * d2[i];
      c[i] += t * x1[i];
      e1[i] -= b.f[i] * t;
    }
    if (!o.opens(r)) continue;
    const Real* x2 = x + second;
    Real* e2 = dx + second;
    for (int64_t i = 0; i < count; ++i) {
      a[i] += d2[i] * x2[i];
      e2[i] = b.g[i] * d2[i];
    }
  }
  Real sum1 = 0, sum2 = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Real d = dy[i] - Real(0.5) * c[i];
    dx[i] = b.g[i] * d - b.f[i] * a[i];
    sum1 += d * b.sine[i] + a[i] * b.cosine[i];
    sum2 += d * b.cosine[i] - a[i] * b.sine[i];
  }
  return {sum1, sum2};
}

// Calls `work(first entry, count)` for every block, on all threads.
template <class Work>
void for_blocks(int64_t entries, Work&& work) {
  const int64_t blocks = (entries + kBlock - 1) / kBlock;
  at::parallel_for(0, blocks, 8, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      work(n, n * kBlock, std::min(kBlock, entries - n * kBlock));
    }
  });
}

Tensor forward_cpu(const Tensor& x, const Tensor& w1, const Tensor& w2,
                   const JetOrders& orders) {
  auto y = torch::empty_like(x);
  const int64_t stride = x.numel() / x.size(0);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "jet_wavelet", [&] {
    const auto* from = x.data_ptr<scalar_t>();
    auto* to = y.data_ptr<scalar_t>();
    const auto a = w1.item<scalar_t>(), b = w2.item<scalar_t>();
    for_blocks(stride, [&](int64_t, int64_t at, int64_t count) {
      const Block<scalar_t> block(from + at, count, a, b);
      forward_block(block, from + at, to + at, stride, orders);
    });
  });
  return y;
}

WaveletWeightGradients backward_cpu(const Tensor& x, const Tensor& dy,
                                    const Tensor& w1, const Tensor& w2,
                                    const JetOrders& orders, Tensor dx,
                                    Tensor y) {
  const int64_t stride = x.numel() / x.size(0);
  std::vector<WeightSums> parts(
      static_cast<size_t>((stride + kBlock - 1) / kBlock));
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "jet_wavelet_backward", [&] {
    const auto* from = x.data_ptr<scalar_t>();
    const auto* given = dy.data_ptr<scalar_t>();
    auto* to = dx.data_ptr<scalar_t>();
    auto* values = y.defined() ? y.data_ptr<scalar_t>() : nullptr;
    const auto a = w1.item<scalar_t>(), b = w2.item<scalar_t>();
    for_blocks(stride, [&](int64_t n, int64_t at, int64_t count) {
      const Block<scalar_t> block(from + at, count, a, b);
      if (values) forward_block(block, from + at, values + at, stride, orders);
      parts[static_cast<size_t>(n)] =
          backward_block(block, from + at, given + at, to + at, stride, orders);
    });
  });
  WeightSums sums;  // in the order of the blocks, whoever computed them
  for (const auto& part : parts) {
    sums.w1 += part.w1;
    sums.w2 += part.w2;
  }
  // By way of float64: a sum that float32 cannot hold becomes infinite.
  const auto scalar = [&](double sum) {
    return torch::full({1}, sum, torch::kFloat64).to(x.options());
  };
  return {scalar(sums.w1), scalar(sums.w2)};
}

class JetWavelet : public torch::autograd::Function<JetWavelet> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context,
                        const Tensor& rows, const Tensor& w1, const Tensor& w2,
                        int64_t orders) {
    const auto x = rows.contiguous();
    context->save_for_backward({x, w1, w2});
    context->saved_data["orders"] = orders;
    return jet_wavelet_values(x, w1, w2, JetOrders::unpacked(orders));
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto orders =
        JetOrders::unpacked(context->saved_data["orders"].toInt());
    const auto dx = torch::empty_like(saved[0]);
    const auto dw =
        jet_wavelet_backward(saved[0], gradients[0].contiguous(), saved[1],
                             saved[2], orders, dx, /*values=*/{});
    return {dx, dw.w1, dw.w2, Tensor()};
  }
};

}  // namespace

Tensor jet_wavelet_values(const Tensor& rows, const Tensor& w1,
                          const Tensor& w2, const JetOrders& orders) {
  return rows.is_cuda() ? jet_wavelet_cuda(rows, w1, w2, orders)
                        : forward_cpu(rows, w1, w2, orders);
}

WaveletWeightGradients jet_wavelet_backward(const Tensor& rows,
                                            const Tensor& grad,
                                            const Tensor& w1, const Tensor& w2,
                                            const JetOrders& orders, Tensor dx,
                                            Tensor values) {
  return rows.is_cuda()
             ? jet_wavelet_backward_cuda(rows, grad, w1, w2, orders, dx, values)
             : backward_cpu(rows, grad, w1, w2, orders, dx, values);
}

Tensor jet_wavelet(const Tensor& rows, const Tensor& w1, const Tensor& w2,
                   const JetOrders& orders) {
  return JetWavelet::apply(rows, w1, w2, orders.packed());
}

Tensor jet_wavelet_reference(const Tensor& rows, const Tensor& w1,
                             const Tensor& w2, const JetOrders& o) {
  const auto s = torch::sin(rows[0]), c = torch::cos(rows[0]);
  const auto f = w1 * s + w2 * c, g = w1 * c - w2 * s;
  const auto x1 = rows.narrow(0, 1, o.first);
  const auto x2 = rows.slice(0, 1 + o.first);
  auto squares = x1.narrow(0, 0, o.second).square();
  if (o.summed) {
    auto total = torch::zeros_like(x2);
    for (int64_t r = 1; r <= o.second; ++r)
      total[0] += squares[r - 1] * o.sign(r);
    squares = total;
  }
  return torch::cat({f.unsqueeze(0), g * x1, g * x2 - 0.5 * f * squares});
}

}  // namespace propagator::kernels
