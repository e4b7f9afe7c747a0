#include "propagator/kernels/cuda.h"

#include <cmath>
#include <cstdint>

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/greens/green_attention.cuh"
#include "propagator/kernels/launch.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;

// Heads are filled up with zeros to a depth that there is a kernel for.
int64_t filled_depth(int64_t depth) {
  return depth <= 16 ? 16 : depth <= 32 ? 32 : 64;
}

// At 16 bytes, too.
Tensor filled(const Tensor& x) {
  const int64_t more = filled_depth(x.size(3)) - x.size(3);
  if (more > 0) return torch::constant_pad_nd(x, {0, more});
  const auto whole = x.contiguous();
  const auto address = reinterpret_cast<uintptr_t>(whole.data_ptr());
  return address % 16 == 0 ? whole : whole.clone();
}

Tensor narrowed(const Tensor& x, int64_t depth) {
  return x.size(3) == depth ? x : x.narrow(3, 0, depth).contiguous();
}

struct FilledHeads {
  Tensor q, k, v;
  GreenShape shape;
  GreenPointers pointers;

  explicit FilledHeads(const GreenInputs& in)
      : q(filled(in.q)), k(filled(in.k)), v(filled(in.v)) {
    const auto number = [](int64_t n) { return static_cast<int>(n); };
    shape = {
        number(q.size(0)),
        number(q.size(1)),
        number(q.size(2)),
        number(k.size(2)),
        number(q.size(3)),
        number(in.query_places.size(2)),
        number(in.key_places.size(2)),
        static_cast<float>(1 / std::sqrt(static_cast<double>(in.q.size(3)))),
        tf32_is_on(),
        in.learns,
        in.settings};
    pointers = {pointer<float>(q),
                pointer<float>(k),
                pointer<float>(v),
                pointer<float>(in.query_places),
                pointer<float>(in.key_places),
                pointer<float>(in.parameters)};
  }
};

}  // namespace

bool green_attention_cuda_fits(const Tensor& q) {
  return q.scalar_type() == torch::kFloat32 &&
         green_depth_supported(static_cast<int>(filled_depth(q.size(3))));
}

GreenForward green_attention_cuda(const GreenInputs& in) {
  const FilledHeads heads(in);
  const auto out = torch::empty_like(heads.q);
  const auto log_sum =
      torch::empty({in.q.size(0), in.q.size(1), in.q.size(2)}, in.q.options());
  launch_green_attention(heads.shape, heads.pointers, pointer<float>(out),
                         pointer<float>(log_sum), getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {narrowed(out, in.q.size(3)), log_sum};
}

GreenGradients green_attention_backward_cuda(const Tensor& grad,
                                             const GreenInputs& in,
                                             const GreenForward& forward) {
  const FilledHeads heads(in);
  const auto out = filled(forward.out), dout = filled(grad);
  const auto dq = torch::empty_like(heads.q), dk = torch::empty_like(heads.k),
             dv = torch::empty_like(heads.v);
  const auto delta = torch::empty_like(forward.log_sum);
  const auto parts =
      torch::empty({in.learns ? green_parts(heads.shape) : 0, kGreenParameters},
                   in.q.options());
  launch_green_attention_backward(
      heads.shape, heads.pointers,
      {pointer<float>(out), pointer<float>(dout),
       pointer<float>(forward.log_sum), pointer<float>(delta),
       pointer<float>(dq), pointer<float>(dk), pointer<float>(dv),
       pointer<float>(parts)},
      getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const int64_t depth = in.q.size(3);
  return {
      narrowed(dq, depth), narrowed(dk, depth), narrowed(dv, depth),
      in.learns
          ? parts.sum(0, /*keepdim=*/false, torch::kFloat64).to(torch::kFloat32)
          : Tensor()};
}

}  // namespace propagator::kernels
