#include "propagator/kernels/jet/jet_scan.cuh"
#include "propagator/kernels/warp.cuh"

// In the backward pass the states are computed twice: once by a thread for each
// channel, which sums over states, and once by a warp for each state, which
// sums over channels. Both sums then need nothing in memory and have a fixed
// order.
namespace propagator::kernels {
namespace {

constexpr int kThreads = 128;

template <class Real>
__global__ void __launch_bounds__(kThreads) forward(Scan<Real> scan, Real* y) {
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= scan.windows * scan.inner) return;
  scan_channels<Real>(scan, at / scan.inner, at % scan.inner, y);
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    channels_backward(Scan<Real> scan, const Real* y,
                      ScanChannelGradients<Real> to) {
  const int64_t at = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (at >= scan.windows * scan.inner) return;
  scan_channels_backward<Real>(scan, at / scan.inner, at % scan.inner, y, to,
                               [](int, int64_t, const auto&) {});
}

template <class Real>
__global__ void __launch_bounds__(kThreads)
    states_backward(Scan<Real> scan, const Real* y, Real* b, Real* c) {
  const int64_t warp = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (warp >= scan.windows * scan.states) return;
  const int64_t n = warp / scan.states, s = warp % scan.states;
  for (int64_t first = 0; first < scan.inner; first += 32) {
    // All lanes of the warp take part in its sums.
    const bool counts = first + lane < scan.inner;
    const ScanLane<Real, Real> work(scan, n, counts ? first + lane : 0, s);
    work.backward(y, [&](int t, const auto& gradients) {
      const int64_t at = scan.state(n, t, s);
      for_slots(scan.orders, [&](int slot, int64_t row) {
        const Real by_b = warp_sum(counts ? gradients.b.at[slot] : Real(0));
        const Real by_c = warp_sum(counts ? gradients.c.at[slot] : Real(0));
        if (lane > 0) return;
        const int64_t to = at + row * scan.state_row();
        b[to] = first == 0 ? by_b : b[to] + by_b;
        c[to] = first == 0 ? by_c : c[to] + by_c;
      });
    });
  }
}

}  // namespace

template <class Real>
void launch_jet_scan(const Scan<Real>& scan, Real* y, cudaStream_t stream) {
  forward<<<blocks_for(scan.windows * scan.inner, kThreads), kThreads, 0,
            stream>>>(scan, y);
}

template <class Real>
void launch_jet_scan_backward(const Scan<Real>& scan, const Real* y,
                              const ScanChannelGradients<Real>& channels,
                              Real* b, Real* c, cudaStream_t stream) {
  channels_backward<<<blocks_for(scan.windows * scan.inner, kThreads), kThreads,
                      0, stream>>>(scan, y, channels);
  states_backward<<<blocks_for(scan.windows * scan.states, kThreads / 32),
                    kThreads, 0, stream>>>(scan, y, b, c);
}

#define INSTANTIATE(Real)                                                   \
  template void launch_jet_scan(const Scan<Real>&, Real*, cudaStream_t);    \
  template void launch_jet_scan_backward(const Scan<Real>&, const Real*,    \
                                         const ScanChannelGradients<Real>&, \
                                         Real*, Real*, cudaStream_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace propagator::kernels
