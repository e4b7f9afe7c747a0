#include "propagator/kernels/jet/jet_scan.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "propagator/kernels/cuda.h"
#include "propagator/kernels/jet/jet_scan_tensors.h"
#include "propagator/kernels/lanes.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;

// Calls `work(first channel, a Value)` for all channels: vectors of them as
// long as they fit, then one by one.
template <class Real, class Work>
void for_channels(int64_t inner, Work&& work) {
  using Vector = typename Lanes<Real>::Vector;
  int64_t i = 0;
  for (; i + Lanes<Real>::kWidth <= inner; i += Lanes<Real>::kWidth) {
    work(i, Vector());
  }
  for (; i < inner; ++i) work(i, Real());
}

// Calls `work(n)` for all windows, on all threads.
template <class Work>
void for_windows(int64_t windows, Work&& work) {
  at::parallel_for(0, windows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) work(n);
  });
}

template <class Real, class Value>
Real sum_of(const Value& value) {
  if constexpr (std::is_same_v<Value, Real>) {
    return value;
  } else {
    return Lanes<Real>::sum(value);
  }
}

// A compiler would call, and not inline, most of what a lane consists of; its
// slots then are in memory.
template <class Real>
[[gnu::flatten]] void forward_of(const Scan<Real>& scan, int64_t n, Real* y) {
  for_channels<Real>(scan.inner, [&](int64_t i, auto value) {
    scan_channels<decltype(value)>(scan, n, i, y);
  });
}

template <class Real>
[[gnu::flatten]] void backward_of(const Scan<Real>& scan, int64_t n,
                                  const Real* grad,
                                  const ScanChannelGradients<Real>& channels,
                                  Real* b, Real* c) {
  for_channels<Real>(scan.inner, [&](int64_t i, auto value) {
    using Value = decltype(value);
    scan_channels_backward<Value>(
        scan, n, i, grad, channels, [&](int t, int64_t s, const auto& of) {
          for_slots(scan.orders, [&](int slot, int64_t row) {
            const int64_t at = scan.state(n, t, s) + row * scan.state_row();
            b[at] += sum_of<Real>(of.b.at[slot]);
            c[at] += sum_of<Real>(of.c.at[slot]);
          });
        });
  });
}

Tensor forward_cpu(const JetScanInputs& in, const JetOrders& orders) {
  auto y = torch::empty_like(in.x);
  AT_DISPATCH_FLOATING_TYPES(in.x.scalar_type(), "jet_scan", [&] {
    const auto scan = scan_of<scalar_t>(in, orders);
    auto* to = y.data_ptr<scalar_t>();
    for_windows(scan.windows, [&](int64_t n) { forward_of(scan, n, to); });
  });
  return y;
}

JetScanInputs backward_cpu(const JetScanInputs& in, const Tensor& grad,
                           const JetOrders& orders) {
  const auto of = empty_scan_gradients(in);
  of.b.zero_();
  of.c.zero_();
  AT_DISPATCH_FLOATING_TYPES(in.x.scalar_type(), "jet_scan_backward", [&] {
    const auto scan = scan_of<scalar_t>(in, orders);
    for_windows(scan.windows, [&](int64_t n) {
      backward_of(scan, n, grad.data_ptr<scalar_t>(),
                  channel_gradients<scalar_t>(of), of.b.data_ptr<scalar_t>(),
                  of.c.data_ptr<scalar_t>());
    });
  });
  return of;
}

class JetScan : public torch::autograd::Function<JetScan> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context,
                        const Tensor& x, const Tensor& delta, const Tensor& a,
                        const Tensor& b, const Tensor& c, const Tensor& d,
                        int64_t packed) {
    const JetScanInputs in{x.contiguous(),     delta.contiguous(),
                           a.t().contiguous(), b.contiguous(),
                           c.contiguous(),     d.contiguous()};
    context->save_for_backward({in.x, in.delta, in.a, in.b, in.c, in.d});
    context->saved_data["orders"] = packed;
    const auto orders = JetOrders::unpacked(packed);
    return x.is_cuda() ? jet_scan_cuda(in, orders) : forward_cpu(in, orders);
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const JetScanInputs in{saved[0], saved[1], saved[2],
                           saved[3], saved[4], saved[5]};
    const auto orders =
        JetOrders::unpacked(context->saved_data["orders"].toInt());
    const auto grad = gradients[0].contiguous();
    const auto of = in.x.is_cuda() ? jet_scan_backward_cuda(in, grad, orders)
                                   : backward_cpu(in, grad, orders);
    return {of.x, of.delta, of.a.sum(0).t(), of.b, of.c, of.d.sum(0), Tensor()};
  }
};

}  // namespace

bool has_jet_scan(const Tensor& x, const JetOrders& orders) {
  return orders.first <= kScanDirections && x.size(2) <= kScanTokens;
}

Tensor jet_scan(const JetScanInputs& in, const JetOrders& orders) {
  return JetScan::apply(in.x, in.delta, in.a, in.b, in.c, in.d,
                        orders.packed());
}

}  // namespace propagator::kernels
