#include "propagator/kernels/encoder/cached_attention.cuh"
#include "propagator/kernels/warp.cuh"

namespace propagator::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kTokens = 4;        // that a group of lanes loads at a time
constexpr float kLowest = -1e30;  // a maximum of nothing; not infinite, so that
                                  // differences of two are numbers

using Quad = Pack<float>;

// A softmax in progress: weights are 2^(score - top), `sum` is their sum.
struct Softmax {
  float top = kLowest, sum = 0;
  Quad mean{};  // Σ weight · value, four columns of it

  __device__ void rescale(float new_top) {
    const float factor = exp2f(top - new_top);
    top = new_top;
    sum *= factor;
#pragma unroll
    for (int i = 0; i < 4; ++i) mean.at[i] *= factor;
  }
};

// Joins the softmaxes of lanes that differ by multiples of kLanes.
template <int kLanes>
__device__ void join_groups(Softmax& state) {
  float top = state.top;
#pragma unroll
  for (int step = kLanes; step < 32; step *= 2) {
    top = fmaxf(top, __shfl_xor_sync(kWholeWarp, top, step));
  }
  state.rescale(top);
  state.sum = warp_sum<kLanes>(state.sum);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    state.mean.at[i] = warp_sum<kLanes>(state.mean.at[i]);
  }
}

// The sum over each group of kLanes neighbouring lanes.
template <int kLanes>
__device__ float group_sum(float value) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, step);
  }
  return value;
}

// One block for a case and head. A group of kDepth / 4 lanes takes whole
// tokens, every kGroups-th, with a softmax of its own; they are joined at the
// end.
template <int kDepth>
__global__ void __launch_bounds__(kThreads, 8)
    cached_attention_kernel(CachedTokens in, int64_t length) {
  constexpr int kLanes = kDepth / 4, kGroups = kThreads / kLanes;
  __shared__ float tops[kWarps], sums[kWarps];
  __shared__ __align__(16) float means[kWarps][kDepth];
  const int group = threadIdx.x / kLanes, column = threadIdx.x % kLanes * 4;
  const int64_t pair = blockIdx.x;
  const int tokens = static_cast<int>(min(length, in.capacity));
  const auto heads = static_cast<unsigned>(in.heads);
  const float* q = in.q + blockIdx.x / heads * in.q_stride +
                   blockIdx.x % heads * kDepth + column;
  const float* keys = in.keys + pair * in.capacity * kDepth + column;
  const float* values = in.values + pair * in.capacity * kDepth + column;
  constexpr float kLog2e = 1.44269504f;
  auto query = load_pack<Quad>(q);
#pragma unroll
  for (int i = 0; i < 4; ++i) query.at[i] *= kLog2e / sqrtf(kDepth);

  Softmax state;
  for (int begin = 0; begin < tokens; begin += kGroups * kTokens) {
    Quad key[kTokens], value[kTokens];
    float score[kTokens];
#pragma unroll
    for (int k = 0; k < kTokens; ++k) {
      // Past the end the last token again, so that no load waits for a test.
      const int token = min(begin + k * kGroups + group, tokens - 1);
      key[k] = load_pack<Quad>(keys + token * kDepth);
      value[k] = load_pack<Quad>(values + token * kDepth);
    }
    float top = state.top;
#pragma unroll
    for (int k = 0; k < kTokens; ++k) {
      float dot = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) dot += query.at[i] * key[k].at[i];
      dot = group_sum<kLanes>(dot);
      score[k] = begin + k * kGroups + group < tokens ? dot : -INFINITY;
      top = fmaxf(top, score[k]);
    }
    state.rescale(top);
#pragma unroll
    for (int k = 0; k < kTokens; ++k) {
      const float weight = exp2f(score[k] - top);
      state.sum += weight;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        state.mean.at[i] += weight * value[k].at[i];
      }
    }
  }

  join_groups<kLanes>(state);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane < kLanes) {
    tops[warp] = state.top;
    sums[warp] = state.sum;
    store_pack(state.mean, &means[warp][column]);
  }
  __syncthreads();
  if (threadIdx.x >= kDepth) return;
  float top = kLowest, sum = 0, mean = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) top = fmaxf(top, tops[w]);
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const float factor = exp2f(tops[w] - top);
    sum += factor * sums[w];
    mean += factor * means[w][threadIdx.x];
  }
  in.out[pair * kDepth + threadIdx.x] = mean / sum;
}

}  // namespace

void launch_cached_attention(const CachedTokens& in, int64_t length,
                             cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(in.batch * in.heads);
  const auto run = [&](auto kernel) {
    kernel<<<blocks, kThreads, 0, stream>>>(in, length);
  };
  if (in.depth == 16) run(cached_attention_kernel<16>);
  if (in.depth == 32) run(cached_attention_kernel<32>);
  if (in.depth == 64) run(cached_attention_kernel<64>);
  if (in.depth == 128) run(cached_attention_kernel<128>);
}

}  // namespace propagator::kernels
