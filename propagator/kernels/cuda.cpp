#include "propagator/kernels/cuda.h"

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/adam.cuh"
#include "propagator/kernels/column_sums.cuh"
#include "propagator/kernels/encoder/cached_attention.cuh"
#include "propagator/kernels/encoder/causal_attention.cuh"
#include "propagator/kernels/encoder/collapse.cuh"
#include "propagator/kernels/encoder/layer_norm.cuh"
#include "propagator/kernels/encoder/prefix_softmax.cuh"
#include "propagator/kernels/launch.h"
#include "propagator/kernels/plate_loss.cuh"

namespace propagator::kernels {

torch::Tensor adam_cuda(torch::Tensor w, const torch::Tensor& grad,
                        torch::Tensor m, torch::Tensor v, const AdamStep& step,
                        const torch::Tensor& varying,
                        const GradientScale& scale) {
  const auto in_double = w.options().dtype(torch::kFloat64);
  const auto partial = torch::empty({kNormParts}, in_double);
  const auto norm = torch::empty({}, in_double);
  dispatch(w, [&](auto real) {
    using Real = decltype(real);
    launch_adam<Real>(pointer<Real>(w), pointer<Real>(grad), pointer<Real>(m),
                      pointer<Real>(v), w.numel(),
                      {step.beta1, step.beta2, step.eps, step.weight_decay,
                       scale.share, scale.clip},
                      pointer<double>(varying), pointer<double>(norm),
                      pointer<double>(partial), getCurrentCUDAStream());
  });
  return norm;
}

void column_sums_cuda(torch::Tensor out, const torch::Tensor& a, bool adds) {
  const int64_t rows = a.size(0), width = a.size(1);
  dispatch(a, [&](auto real) {
    using Real = decltype(real);
    const auto workspace =
        torch::empty({column_sums_workspace<Real>(rows, width)}, a.options());
    launch_column_sums<Real>(pointer<Real>(a), rows, width, adds,
                             pointer<Real>(out), pointer<Real>(workspace),
                             getCurrentCUDAStream());
  });
}

void relu_backward_cuda(torch::Tensor dy, const torch::Tensor& y,
                        torch::Tensor dbias, Beside& beside) {
  const int64_t rows = dy.size(0), width = dy.size(1);
  dispatch(dy, [&](auto real) {
    using Real = decltype(real);
    const auto workspace =
        torch::empty({column_sums_workspace<Real>(rows, width)}, dy.options());
    launch_relu_partials<Real>(pointer<Real>(dy), pointer<Real>(y), rows, width,
                               pointer<Real>(workspace),
                               getCurrentCUDAStream());
    if (!dbias.defined()) return;
    beside.keep({workspace});
    beside.run([&] {
      launch_add_partials<Real>(
          pointer<Real>(workspace), column_sums_blocks<Real>(rows, width),
          width, width, pointer<Real>(dbias), nullptr, getCurrentCUDAStream());
    });
  });
}

bool cached_attention_cuda_has_depth(int64_t depth) {
  return cached_attention_has_depth(depth);
}

torch::Tensor cached_attention_cuda(const torch::Tensor& q,
                                    const torch::Tensor& keys,
                                    const torch::Tensor& values,
                                    int64_t length) {
  const auto out =
      torch::empty({q.size(0), q.size(1), 1, q.size(3)}, q.options());
  const CachedTokens tokens{q.size(0),
                            q.size(1),
                            keys.size(2),
                            q.size(3),
                            pointer<float>(q),
                            q.stride(0),
                            pointer<float>(keys),
                            pointer<float>(values),
                            pointer<float>(out)};
  launch_cached_attention(tokens, length, getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

bool causal_attention_cuda_has_depth(int64_t depth) {
  return causal_depth_supported(static_cast<int>(depth));
}

namespace {

CausalShape causal_shape(const torch::Tensor& out, int64_t heads,
                         int64_t prefix, bool sees_itself) {
  const auto number = [](int64_t n) { return static_cast<int>(n); };
  return {number(out.size(0)), number(heads),
          number(out.size(1)), number(out.size(2) / heads),
          number(prefix),      sees_itself,
          tf32_is_on()};
}

// Part n of tokens that hold several parts of this width.
float* part(const torch::Tensor& tokens, int64_t width, int64_t n) {
  return tokens.data_ptr<float>() + n * width;
}

int stride_of(const torch::Tensor& tokens) {
  return static_cast<int>(tokens.stride(1));
}

}  // namespace

PackedAttention packed_causal_attention_cuda(const torch::Tensor& qkv,
                                             int64_t heads, int64_t prefix,
                                             bool sees_itself) {
  const int64_t batch = qkv.size(0), tokens = qkv.size(1);
  const int64_t width = qkv.size(2) / 3;
  const PackedAttention forward{
      torch::empty({batch, tokens, width}, qkv.options()),
      torch::empty({batch, heads, tokens}, qkv.options())};
  launch_causal_attention(
      causal_shape(forward.out, heads, prefix, sees_itself),
      part(qkv, width, 0), part(qkv, width, 1), part(qkv, width, 2),
      stride_of(qkv), pointer<float>(forward.out), stride_of(forward.out),
      pointer<float>(forward.log_sum), getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return forward;
}

torch::Tensor packed_causal_attention_backward_cuda(
    const torch::Tensor& grad, const torch::Tensor& qkv,
    const PackedAttention& forward, int64_t heads, int64_t prefix,
    bool sees_itself) {
  const int64_t width = grad.size(2);
  const auto dqkv = torch::empty_like(qkv);
  const auto delta = torch::empty_like(forward.log_sum);
  launch_causal_attention_backward(
      causal_shape(grad, heads, prefix, sees_itself), part(qkv, width, 0),
      part(qkv, width, 1), part(qkv, width, 2), stride_of(qkv),
      pointer<float>(forward.out), pointer<float>(grad), stride_of(grad),
      pointer<float>(forward.log_sum), pointer<float>(delta),
      part(dqkv, width, 0), part(dqkv, width, 1), part(dqkv, width, 2),
      stride_of(dqkv), getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return dqkv;
}

Collapsed collapse_cuda(const torch::Tensor& w, const torch::Tensor& encoding) {
  const int64_t outputs = w.size(0), places = encoding.size(0);
  const auto sums = torch::empty({outputs, places}, w.options());
  const auto products = torch::empty_like(sums);
  dispatch(w, [&](auto real) {
    using Real = decltype(real);
    launch_collapse<Real>(pointer<Real>(w), pointer<Real>(encoding), outputs,
                          places, encoding.size(1), pointer<Real>(sums),
                          pointer<Real>(products), getCurrentCUDAStream());
  });
  return {sums, products.sum(1)};
}

void collapse_backward_cuda(torch::Tensor dw, const torch::Tensor& dweight,
                            const torch::Tensor& doffset,
                            const torch::Tensor& encoding) {
  dispatch(dw, [&](auto real) {
    using Real = decltype(real);
    launch_collapse_backward<Real>(
        pointer<Real>(dw), pointer<Real>(dweight), pointer<Real>(doffset),
        pointer<Real>(encoding), dw.size(0), encoding.size(0), encoding.size(1),
        getCurrentCUDAStream());
  });
}

LayerNormed layer_norm_cuda(const torch::Tensor& x, const torch::Tensor& weight,
                            const torch::Tensor& bias, double eps) {
  const LayerNormed out{torch::empty_like(x),
                        torch::empty({x.size(0)}, x.options()),
                        torch::empty({x.size(0)}, x.options())};
  dispatch(x, [&](auto real) {
    using Real = decltype(real);
    launch_layer_norm<Real>(
        {x.size(0), x.size(1), eps, pointer<Real>(x), pointer<Real>(weight),
         pointer<Real>(bias), pointer<Real>(out.y), pointer<Real>(out.mean),
         pointer<Real>(out.rstd)},
        getCurrentCUDAStream());
  });
  return out;
}

torch::Tensor layer_norm_backward_cuda(
    const torch::Tensor& dy, const torch::Tensor& x, const LayerNormed& forward,
    const torch::Tensor& weight, const torch::Tensor& residual,
    torch::Tensor dweight, torch::Tensor dbias, Beside& beside) {
  const int64_t rows = x.size(0), width = x.size(1);
  const auto dx = torch::empty_like(x);
  dispatch(x, [&](auto real) {
    using Real = decltype(real);
    const auto workspace =
        torch::empty({layer_norm_workspace<Real>(rows, width)}, x.options());
    const LayerNormGradient<Real> in{
        rows,
        width,
        pointer<Real>(dy),
        pointer<Real>(x),
        pointer<Real>(forward.mean),
        pointer<Real>(forward.rstd),
        pointer<Real>(weight),
        residual.defined() ? pointer<Real>(residual) : nullptr,
        pointer<Real>(dx),
        dweight.defined() ? pointer<Real>(dweight) : nullptr,
        dbias.defined() ? pointer<Real>(dbias) : nullptr,
        pointer<Real>(workspace)};
    launch_layer_norm_gradient(in, getCurrentCUDAStream());
    if (!in.has_sums()) return;
    beside.keep({workspace, dy});
    beside.run(
        [&] { launch_layer_norm_gradient_sums(in, getCurrentCUDAStream()); });
  });
  return dx;
}

bool plate_loss_cuda_fits(const torch::Tensor& prediction) {
  const int64_t cols = prediction.size(3);
  return prediction.scalar_type() == torch::kFloat64
             ? cols <= kPlateLossWidest<double>
             : cols <= kPlateLossWidest<float>;
}

PlateLossGradient plate_loss_cuda(const PlateLossInputs& in,
                                  const PlateLossWeights& weights) {
  const auto& p = in.prediction;
  const int64_t batch = p.size(0), frames = p.size(1);
  const int64_t rows = p.size(2), cols = p.size(3);
  const auto in_double = p.options().dtype(torch::kFloat64);
  const PlateLossGradient out{torch::empty_like(p),
                              torch::empty({4}, in_double),
                              torch::empty({}, p.options())};
  dispatch(p, [&](auto real) {
    using Real = decltype(real);
    const auto workspace = torch::empty(
        {plate_loss_workspace<Real>(batch, frames, rows, cols)}, in_double);
    launch_plate_loss<Real>(
        {batch, frames, rows, cols, in.visible, pointer<Real>(p),
         pointer<Real>(in.truth), pointer<Real>(in.rate), pointer<Real>(in.kx),
         pointer<Real>(in.ky)},
        {weights.mse, weights.physics, weights.boundary, weights.initial},
        pointer<Real>(out.gradient), pointer<double>(out.terms),
        pointer<Real>(out.total), pointer<double>(workspace),
        getCurrentCUDAStream());
  });
  return out;
}

void prefix_softmax_cuda(torch::Tensor scores, int64_t heads) {
  const auto keys = static_cast<int>(scores.size(1) / heads);
  dispatch(scores, [&](auto real) {
    using Real = decltype(real);
    launch_prefix_softmax<Real>(pointer<Real>(scores), scores.size(0), keys,
                                static_cast<int>(heads),
                                getCurrentCUDAStream());
  });
}

void prefix_softmax_backward_cuda(torch::Tensor dw, const torch::Tensor& w,
                                  int64_t heads) {
  const auto keys = static_cast<int>(w.size(1) / heads);
  dispatch(w, [&](auto real) {
    using Real = decltype(real);
    launch_prefix_softmax_backward<Real>(
        pointer<Real>(dw), pointer<Real>(w), w.size(0), keys,
        static_cast<int>(heads), getCurrentCUDAStream());
  });
}

}  // namespace propagator::kernels
