#pragma once

#include "propagator/kernels/jet/jet_scan.h"
#include "propagator/kernels/jet/jet_scan_lane.h"

// From the tensors of a scan to the pointers that the kernels take, for the
// CPU's and CUDA's. Here a is (S, I), and so is its gradient, of each window.
namespace propagator::kernels {

template <class Real>
Scan<Real> scan_of(const JetScanInputs& in, const JetOrders& orders) {
  return {in.x.size(1),
          in.x.size(2),
          in.x.size(3),
          in.b.size(3),
          orders,
          in.x.data_ptr<Real>(),
          in.delta.data_ptr<Real>(),
          in.a.data_ptr<Real>(),
          in.b.data_ptr<Real>(),
          in.c.data_ptr<Real>(),
          in.d.data_ptr<Real>()};
}

// Not filled.
inline JetScanInputs empty_scan_gradients(const JetScanInputs& in) {
  const int64_t windows = in.x.size(1), inner = in.x.size(3);
  return {torch::empty_like(in.x),
          torch::empty_like(in.delta),
          torch::empty({windows, in.b.size(3), inner}, in.x.options()),
          torch::empty_like(in.b),
          torch::empty_like(in.c),
          torch::empty({windows, inner}, in.x.options())};
}

template <class Real>
ScanChannelGradients<Real> channel_gradients(const JetScanInputs& of) {
  return {of.x.data_ptr<Real>(), of.delta.data_ptr<Real>(),
          of.a.data_ptr<Real>(), of.d.data_ptr<Real>()};
}

}  // namespace propagator::kernels
