#include "propagator/kernels/encoder/prefix_softmax.cuh"

namespace propagator::kernels {
namespace {

constexpr int kThreads = 128;

// Where the scores of this thread's token and head begin; null past the end.
template <class Real>
__device__ Real* begin_of(Real* all, int64_t tokens, int keys, int heads) {
  const int64_t n = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (n >= tokens * heads) return nullptr;
  return all + n / heads * keys * heads + n % heads;
}

template <class Real>
__global__ void softmax(Real* scores, int64_t tokens, int keys, int heads) {
  Real* mine = begin_of(scores, tokens, keys, heads);
  if (mine == nullptr) return;
  Real top = mine[0];
  for (int p = 1; p < keys; ++p) top = max(top, mine[p * heads]);
  Real sum = 0;
  for (int p = 0; p < keys; ++p) {
    const Real weight = exp(mine[p * heads] - top);
    mine[p * heads] = weight;
    sum += weight;
  }
  const Real share = 1 / sum;
  for (int p = 0; p < keys; ++p) mine[p * heads] *= share;
}

template <class Real>
__global__ void backward(Real* dw, const Real* w, int64_t tokens, int keys,
                         int heads) {
  Real* mine = begin_of(dw, tokens, keys, heads);
  if (mine == nullptr) return;
  const Real* weight = w + (mine - dw);
  Real sum = 0;
  for (int p = 0; p < keys; ++p) sum += mine[p * heads] * weight[p * heads];
  for (int p = 0; p < keys; ++p) {
    mine[p * heads] = weight[p * heads] * (mine[p * heads] - sum);
  }
}

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

}  // namespace

template <class Real>
void launch_prefix_softmax(Real* scores, int64_t tokens, int keys, int heads,
                           cudaStream_t stream) {
  softmax<<<blocks_for(tokens * heads), kThreads, 0, stream>>>(scores, tokens,
                                                               keys, heads);
}

template <class Real>
void launch_prefix_softmax_backward(Real* dw, const Real* w, int64_t tokens,
                                    int keys, int heads, cudaStream_t stream) {
  backward<<<blocks_for(tokens * heads), kThreads, 0, stream>>>(dw, w, tokens,
                                                                keys, heads);
}

template void launch_prefix_softmax(float*, int64_t, int, int, cudaStream_t);
template void launch_prefix_softmax(double*, int64_t, int, int, cudaStream_t);
template void launch_prefix_softmax_backward(float*, const float*, int64_t, int,
                                             int, cudaStream_t);
template void launch_prefix_softmax_backward(double*, const double*, int64_t,
                                             int, int, cudaStream_t);

}  // namespace propagator::kernels
