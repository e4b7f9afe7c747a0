#include "propagator/core/torch_compat.h"
#include "propagator/kernels/cuda.h"
#include "propagator/kernels/jet/jet_attention.cuh"
#include "propagator/kernels/jet/jet_cross_attention.cuh"
#include "propagator/kernels/jet/jet_film.cuh"
#include "propagator/kernels/jet/jet_film_tensors.h"
#include "propagator/kernels/jet/jet_scan.cuh"
#include "propagator/kernels/jet/jet_scan_tensors.h"
#include "propagator/kernels/jet/jet_wavelet.cuh"
#include "propagator/kernels/jet/jet_wavelet_dot.cuh"
#include "propagator/kernels/launch.h"
#include "propagator/kernels/small_linear.cuh"

namespace propagator::kernels {
namespace {

JetWindows jet_windows(const torch::Tensor& q, int64_t heads,
                       const JetOrders& orders) {
  return {q.size(1), q.size(2), q.size(3), heads, orders};
}

template <class Real>
const Real* pointer_or_null(const torch::Tensor& x) {
  return x.numel() > 0 ? pointer<Real>(x) : nullptr;
}

bool at_16_bytes(const torch::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
}

WaveletWeightGradients parts_of(const torch::Tensor& both) {
  return {both.narrow(0, 0, 1), both.narrow(0, 1, 1)};
}

WaveletDot waves_dot(const torch::Tensor& rows, const torch::Tensor& w1,
                     const torch::Tensor& w2, const torch::Tensor& weight,
                     const JetOrders& orders) {
  const int64_t width = rows.size(-1);
  return {rows.numel() / orders.rows() / width,
          width,
          orders,
          pointer<float>(rows),
          pointer<float>(w1),
          pointer<float>(w2),
          pointer<float>(weight)};
}

JetCross jet_cross(const torch::Tensor& q, const torch::Tensor& k,
                   const torch::Tensor& v, int64_t heads,
                   const JetOrders& orders) {
  return {q.size(1),        k.size(0),    q.size(2),         q.size(2) / heads,
          orders,           tf32_is_on(), pointer<float>(q), pointer<float>(k),
          pointer<float>(v)};
}

}  // namespace

bool jet_attention_cuda_fits(const torch::Tensor& q, int64_t heads,
                             const JetOrders& orders) {
  const auto shape = jet_windows(q, heads, orders);
  return q.scalar_type() == torch::kFloat64 ? jet_attention_fits<double>(shape)
                                            : jet_attention_fits<float>(shape);
}

torch::Tensor jet_attention_cuda(const torch::Tensor& q,
                                 const torch::Tensor& kv,
                                 const torch::Tensor& bias, int64_t heads,
                                 const JetOrders& orders) {
  const auto out = torch::empty_like(q);
  dispatch(q, [&](auto real) {
    using Real = decltype(real);
    launch_jet_attention<Real>(jet_windows(q, heads, orders), pointer<Real>(q),
                               pointer<Real>(kv), pointer_or_null<Real>(bias),
                               pointer<Real>(out), getCurrentCUDAStream());
  });
  return out;
}

JetAttentionGradients jet_attention_backward_cuda(
    const torch::Tensor& q, const torch::Tensor& kv, const torch::Tensor& bias,
    const torch::Tensor& grad, int64_t heads, const JetOrders& orders) {
  const JetAttentionGradients out{torch::empty_like(q), torch::empty_like(kv)};
  dispatch(q, [&](auto real) {
    using Real = decltype(real);
    launch_jet_attention_backward<Real>(
        jet_windows(q, heads, orders), pointer<Real>(q), pointer<Real>(kv),
        pointer_or_null<Real>(bias), pointer<Real>(grad), pointer<Real>(out.q),
        pointer<Real>(out.kv), getCurrentCUDAStream());
  });
  return out;
}

bool jet_cross_attention_cuda_fits(const torch::Tensor& q, int64_t depth,
                                   const JetOrders& orders) {
  return q.scalar_type() == torch::kFloat32 &&
         jet_cross_attention_has(depth, orders);
}

void jet_cross_attention_cuda(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, const JetOrders& orders,
                              const torch::Tensor& out,
                              const torch::Tensor& sums) {
  launch_jet_cross_attention(jet_cross(q, k, v, sums.size(1), orders),
                             pointer<float>(out), pointer<float>(sums),
                             getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

JetCrossGradients jet_cross_attention_backward_cuda(
    const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
    const torch::Tensor& out, const torch::Tensor& sums,
    const torch::Tensor& grad, const JetOrders& orders) {
  const auto of = jet_cross(q, k, v, sums.size(1), orders);
  const auto dq = torch::empty_like(q), taken = torch::empty_like(sums);
  const auto parts = torch::empty(
      {jet_cross_attention_parts(of), 2, of.tokens, of.width}, q.options());
  launch_jet_cross_attention_backward(
      of,
      {pointer<float>(out), pointer<float>(sums), pointer<float>(grad),
       pointer<float>(taken), pointer<float>(dq), pointer<float>(parts)},
      getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto both = parts.sum(0);
  return {dq, both[0], both[1]};
}

torch::Tensor jet_film_cuda(const torch::Tensor& x, const torch::Tensor& film,
                            double w0, const JetOrders& orders) {
  const auto y = torch::empty_like(x);
  dispatch(x, [&](auto real) {
    using Real = decltype(real);
    launch_jet_film<Real>(film_of<Real>(x, film, w0, orders), pointer<Real>(y),
                          getCurrentCUDAStream());
  });
  return y;
}

void jet_film_backward_cuda(const torch::Tensor& x, const torch::Tensor& film,
                            double w0, const JetOrders& orders,
                            const torch::Tensor& dy, const torch::Tensor& dx,
                            const torch::Tensor& dfilm) {
  dispatch(x, [&](auto real) {
    using Real = decltype(real);
    launch_jet_film_backward<Real>(
        film_of<Real>(x, film, w0, orders),
        {pointer<Real>(dy), pointer<Real>(dx), pointer<Real>(dfilm)},
        getCurrentCUDAStream());
  });
}

torch::Tensor jet_scan_cuda(const JetScanInputs& in, const JetOrders& orders) {
  const auto y = torch::empty_like(in.x);
  dispatch(in.x, [&](auto real) {
    using Real = decltype(real);
    launch_jet_scan<Real>(scan_of<Real>(in, orders), pointer<Real>(y),
                          getCurrentCUDAStream());
  });
  return y;
}

JetScanInputs jet_scan_backward_cuda(const JetScanInputs& in,
                                     const torch::Tensor& grad,
                                     const JetOrders& orders) {
  const auto of = empty_scan_gradients(in);
  dispatch(in.x, [&](auto real) {
    using Real = decltype(real);
    launch_jet_scan_backward<Real>(
        scan_of<Real>(in, orders), pointer<Real>(grad),
        channel_gradients<Real>(of), pointer<Real>(of.b), pointer<Real>(of.c),
        getCurrentCUDAStream());
  });
  return of;
}

torch::Tensor jet_wavelet_cuda(const torch::Tensor& rows,
                               const torch::Tensor& w1, const torch::Tensor& w2,
                               const JetOrders& o) {
  const auto y = torch::empty_like(rows);
  dispatch(rows, [&](auto real) {
    using Real = decltype(real);
    launch_jet_wavelet<Real>(rows.numel() / o.rows(), o, pointer<Real>(rows),
                             pointer<Real>(w1), pointer<Real>(w2),
                             pointer<Real>(y), getCurrentCUDAStream());
  });
  return y;
}

WaveletWeightGradients jet_wavelet_backward_cuda(
    const torch::Tensor& rows, const torch::Tensor& grad,
    const torch::Tensor& w1, const torch::Tensor& w2, const JetOrders& o,
    torch::Tensor dx, torch::Tensor values) {
  const int64_t entries = rows.numel() / o.rows();
  const auto partial = torch::empty({2, jet_wavelet_blocks(entries)},
                                    rows.options().dtype(torch::kFloat64));
  const auto dw = torch::empty({2}, rows.options());
  dispatch(rows, [&](auto real) {
    using Real = decltype(real);
    launch_jet_wavelet_backward<Real>(
        entries, o, pointer<Real>(rows), pointer<Real>(grad), pointer<Real>(w1),
        pointer<Real>(w2), pointer<Real>(dx),
        values.defined() ? pointer<Real>(values) : nullptr,
        pointer<double>(partial), getCurrentCUDAStream());
    launch_wavelet_sums(partial.size(1), pointer<double>(partial),
                        pointer<Real>(dw), getCurrentCUDAStream());
  });
  return parts_of(dw);
}

bool jet_wavelet_dot_cuda_fits(const torch::Tensor& rows,
                               const torch::Tensor& weight) {
  return weight.size(0) == 1 && rows.scalar_type() == torch::kFloat32 &&
         jet_wavelet_dot_has(weight.size(1)) && weight.is_contiguous() &&
         at_16_bytes(rows) && at_16_bytes(weight);
}

torch::Tensor jet_wavelet_dot_cuda(const torch::Tensor& rows,
                                   const torch::Tensor& w1,
                                   const torch::Tensor& w2,
                                   const torch::Tensor& weight,
                                   const torch::Tensor& bias,
                                   const JetOrders& orders) {
  const auto y = empty_output(rows, weight);
  launch_jet_wavelet_dot(waves_dot(rows, w1, w2, weight, orders),
                         pointer<float>(bias), pointer<float>(y),
                         getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

WaveletDotGradients jet_wavelet_dot_backward_cuda(const torch::Tensor& rows,
                                                  const torch::Tensor& grad,
                                                  const torch::Tensor& w1,
                                                  const torch::Tensor& w2,
                                                  const torch::Tensor& weight,
                                                  const JetOrders& orders) {
  const auto in = waves_dot(rows, w1, w2, weight, orders);
  const int64_t blocks = jet_wavelet_dot_blocks(in);
  const auto partial =
      torch::empty({2, blocks}, rows.options().dtype(torch::kFloat64));
  const auto workspace = torch::empty({blocks, in.width + 1}, rows.options());
  const auto dw = torch::empty({2}, rows.options());
  const WaveletDotGradients d{torch::empty_like(rows),
                              torch::empty_like(weight),
                              torch::empty({1}, rows.options()), parts_of(dw)};
  launch_jet_wavelet_dot_backward(
      in, pointer<float>(grad), pointer<float>(d.rows),
      pointer<float>(d.weight), pointer<float>(d.bias),
      pointer<double>(partial), pointer<float>(workspace),
      getCurrentCUDAStream());
  launch_wavelet_sums(blocks, pointer<double>(partial), pointer<float>(dw),
                      getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return d;
}

bool small_jet_linear_cuda_fits(const torch::Tensor& rows,
                                const torch::Tensor& weight) {
  return rows.scalar_type() == torch::kFloat32 &&
         small_linear_has(weight.size(1), weight.size(0)) &&
         rows.is_contiguous() && weight.is_contiguous() && at_16_bytes(rows) &&
         at_16_bytes(weight);
}

torch::Tensor small_jet_linear_cuda(const torch::Tensor& rows,
                                    const torch::Tensor& weight,
                                    const torch::Tensor& bias) {
  const int64_t count = rows.numel() / rows.size(-1);
  const auto y = empty_output(rows, weight);
  launch_small_linear(count, count / rows.size(0), weight.size(0),
                      pointer<float>(rows), pointer<float>(weight),
                      pointer<float>(bias), pointer<float>(y),
                      getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}

JetLinearGradients small_jet_linear_backward_cuda(const torch::Tensor& rows,
                                                  const torch::Tensor& grad,
                                                  const torch::Tensor& weight,
                                                  bool of_rows) {
  const int64_t count = rows.numel() / rows.size(-1);
  const int64_t outputs = weight.size(0);
  const auto workspace =
      torch::empty({small_linear_workspace(count, outputs)}, rows.options());
  const JetLinearGradients d{
      of_rows ? torch::empty_like(rows) : torch::Tensor(),
      torch::empty_like(weight), torch::empty({outputs}, rows.options())};
  launch_small_linear_backward(
      count, count / rows.size(0), outputs, pointer<float>(rows),
      pointer<float>(grad), pointer<float>(weight),
      of_rows ? pointer<float>(d.rows) : nullptr, pointer<float>(d.weight),
      pointer<float>(d.bias), pointer<float>(workspace),
      getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return d;
}

}  // namespace propagator::kernels
