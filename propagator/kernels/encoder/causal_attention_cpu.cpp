#include "propagator/kernels/encoder/causal_attention_cpu.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <type_traits>

#include "propagator/core/torch_compat.h"
#include "propagator/kernels/encoder/causal_head.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;

// A thread is worth waking for so many products of a head's T² D.
constexpr int64_t kWorthAThread = 1 << 18;

// Rows that lie in one piece each.
Tensor with_rows(const Tensor& x) {
  return x.stride(3) == 1 ? x : x.contiguous();
}

// Where the rows of every head of (B, H, T, D) are.
template <class Real>
class Heads {
 public:
  explicit Heads(const Tensor& x)
      : data_(x.data_ptr<std::remove_const_t<Real>>()),
        heads_(x.size(1)),
        case_(x.stride(0)),
        head_(x.stride(1)),
        row_(x.stride(2)) {}

  HeadRows<Real> operator[](int64_t n) const {
    return {data_ + n / heads_ * case_ + n % heads_ * head_, row_};
  }

 private:
  Real* data_;
  int64_t heads_, case_, head_, row_;
};

// Calls work(n, head) for the heads of all cases, on all threads.
template <class Real, class Work>
void for_heads(const CausalInputs& in, const Work& work) {
  const CausalReach reach{in.q.size(2), in.prefix, in.sees_itself};
  const int64_t count = in.q.size(0) * in.q.size(1), depth = in.q.size(3);
  const int64_t products = reach.tokens * reach.tokens * depth;
  const int64_t grain =
      std::max<int64_t>(1, kWorthAThread / std::max<int64_t>(1, products));
  at::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
    CausalHead<Real> head(reach, depth);
    for (int64_t n = begin; n < end; ++n) work(n, head);
  });
}

CausalInputs with_rows(const CausalInputs& in) {
  return {with_rows(in.q), with_rows(in.k), with_rows(in.v), in.prefix,
          in.sees_itself};
}

}  // namespace

bool has_causal_attention_cpu(const Tensor& x) {
  const auto type = x.scalar_type();
  return x.is_cpu() && !autocast_enabled(x.device()) && x.numel() > 0 &&
         (type == torch::kFloat32 || type == torch::kFloat64);
}

CausalForward causal_attention_cpu(const CausalInputs& given) {
  RECORD_FUNCTION("propagator::causal_attention",
                  c10::ArrayRef<const c10::IValue>(
                      {given.q, given.prefix, given.sees_itself}));
  const auto in = with_rows(given);
  const int64_t heads = in.q.size(1), tokens = in.q.size(2);
  const int64_t depth = in.q.size(3), width = heads * depth;
  const CausalForward forward{
      torch::empty_strided(in.q.sizes(), {tokens * width, depth, width, 1},
                           in.q.options()),
      torch::empty({in.q.size(0), heads, tokens}, in.q.options())};
  AT_DISPATCH_FLOATING_TYPES(in.q.scalar_type(), "causal_attention", [&] {
    const Heads<const scalar_t> q(in.q), k(in.k), v(in.v);
    const Heads<scalar_t> out(forward.out);
    auto* log_sum = forward.log_sum.data_ptr<scalar_t>();
    for_heads<scalar_t>(in, [&](int64_t n, auto& head) {
      head.forward(q[n], k[n], v[n], out[n], log_sum + n * tokens);
    });
  });
  return forward;
}

CausalGradients causal_attention_backward_cpu(const Tensor& grad,
                                              const CausalInputs& given,
                                              const Tensor& log_sum) {
  RECORD_FUNCTION("propagator::causal_attention_backward",
                  c10::ArrayRef<const c10::IValue>(
                      {given.q, given.prefix, given.sees_itself}));
  const auto in = with_rows(given);
  const auto upstream = with_rows(grad);
  const int64_t heads = in.q.size(1), tokens = in.q.size(2);
  const auto packed = torch::empty(
      {in.q.size(0), tokens, 3, heads, in.q.size(3)}, in.q.options());
  const auto part = [&](int64_t n) {
    return packed.select(2, n).transpose(1, 2);
  };
  const CausalGradients d{packed, part(0), part(1), part(2)};
  AT_DISPATCH_FLOATING_TYPES(in.q.scalar_type(), "causal_attention", [&] {
    const Heads<const scalar_t> q(in.q), k(in.k), v(in.v), g(upstream);
    const Heads<scalar_t> dq(d.q), dk(d.k), dv(d.v);
    const auto* sums = log_sum.data_ptr<scalar_t>();
    for_heads<scalar_t>(in, [&](int64_t n, auto& head) {
      head.backward(g[n], q[n], k[n], v[n], sums + n * tokens, dq[n], dk[n],
                    dv[n]);
    });
  });
  return d;
}

}  // namespace propagator::kernels
