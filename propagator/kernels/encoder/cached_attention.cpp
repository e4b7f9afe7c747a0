#include "propagator/kernels/encoder/cached_attention.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "propagator/kernels/cuda.h"
#include "propagator/kernels/encoder/causal_attention.h"
#include "propagator/kernels/lanes.h"

namespace propagator::kernels {
namespace {

template <class Real>
Real dot(const Real* a, const Real* b, int64_t n) {
  Lanes<Real> sums;
  constexpr int64_t kLanes = Lanes<Real>::kCount;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sums.add_product(a + i, b + i);
  Real sum = sums.sum();
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// One case and head; `scores` has room for `length` numbers.
template <class Real>
void attend(const Real* q, const Real* k, const Real* v, int64_t length,
            int64_t depth, Real* scores, Real* out) {
  const Real scale = 1 / std::sqrt(static_cast<Real>(depth));
  for (int64_t j = 0; j < length; ++j) {
    scores[j] = scale * dot(q, k + j * depth, depth);
  }
  const Real top = *std::max_element(scores, scores + length);
  Real sum = 0;
  std::fill(out, out + depth, Real(0));
  for (int64_t j = 0; j < length; ++j) {
    const Real weight = std::exp(scores[j] - top);
    sum += weight;
    for (int64_t d = 0; d < depth; ++d) out[d] += weight * v[j * depth + d];
  }
  for (int64_t d = 0; d < depth; ++d) out[d] /= sum;
}

}  // namespace

torch::Tensor cached_attention_reference(const torch::Tensor& q,
                                         const torch::Tensor& keys,
                                         const torch::Tensor& values,
                                         int64_t length) {
  return masked_attention(q, keys.narrow(2, 0, length),
                          values.narrow(2, 0, length), /*mask=*/{});
}

torch::Tensor cached_attention(const torch::Tensor& q,
                               const torch::Tensor& keys,
                               const torch::Tensor& values, int64_t length) {
  const bool one = q.size(2) == 1 && q.scalar_type() == keys.scalar_type();
  if (one && q.is_cuda() && q.scalar_type() == torch::kFloat32 &&
      q.stride(1) == q.size(3) && cached_attention_cuda_has_depth(q.size(3))) {
    return cached_attention_cuda(q, keys, values, length);
  }
  if (!one || !q.is_cpu()) {
    return cached_attention_reference(q, keys, values, length);
  }
  const int64_t heads = q.size(0) * q.size(1), depth = q.size(3);
  const int64_t stride = keys.size(2) * depth;
  const auto query = q.contiguous();
  auto out = torch::empty_like(query);
  AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "cached_attention", [&] {
    const auto* pq = query.data_ptr<scalar_t>();
    const auto* pk = keys.data_ptr<scalar_t>();
    const auto* pv = values.data_ptr<scalar_t>();
    auto* po = out.data_ptr<scalar_t>();
    at::parallel_for(0, heads, 4, [&](int64_t begin, int64_t end) {
      std::vector<scalar_t> scores(static_cast<size_t>(length));
      for (int64_t h = begin; h < end; ++h) {
        attend(pq + h * depth, pk + h * stride, pv + h * stride, length, depth,
               scores.data(), po + h * depth);
      }
    });
  });
  return out;
}

}  // namespace propagator::kernels
