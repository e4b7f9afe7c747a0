#include <algorithm>
#include <type_traits>

#include "propagator/kernels/column_sums.cuh"
#include "propagator/kernels/jet/jet_wavelet_dot.cuh"
#include "propagator/kernels/jet/wavelet_sums.cuh"

namespace propagator::kernels {
namespace {

using Four = Pack<float>;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kSlab = 32 * Four::kSize;  // columns of a warp at a time
constexpr int kBlocksAtOnce = 3;         // of backward, on a multiprocessor
constexpr int64_t kManyBlocks = 132 * kBlocksAtOnce;

// A warp has a token. With F = w₁ sin + w₂ cos, G = F', both times the weight:
// y_0 = Σ F, y_1 = Σ G x_1, y_2 = Σ G x_2 - F Σ ±x_1² / 2.
template <int kSlabs>
__global__ void __launch_bounds__(kThreads)
    forward(WaveletDot in, const float* bias, float* y) {
  const int lane = threadIdx.x % 32;
  const int64_t token = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (token >= in.tokens) return;
  const auto& orders = in.orders;
  const int64_t stride = in.tokens * in.width;
  const int64_t begin = token * in.width + lane * Four::kSize;
  const auto store = [&](int64_t row, float value) {
    const float sum = warp_sum(value);
    if (lane == 0) y[row * in.tokens + token] = row == 0 ? sum + *bias : sum;
  };
  const float w1 = *in.w1, w2 = *in.w2;
  Four f[kSlabs], g[kSlabs], squares[kSlabs] = {};
  float sum = 0;
#pragma unroll
  for (int p = 0; p < kSlabs; ++p) {
    const auto x0 = load_pack<Four>(in.x + begin + p * kSlab);
    const auto w = load_pack<Four>(in.weight + lane * Four::kSize + p * kSlab);
#pragma unroll
    for (int k = 0; k < Four::kSize; ++k) {
      float s, c;
      sine_and_cosine(x0.at[k], &s, &c);
      f[p].at[k] = w.at[k] * (w1 * s + w2 * c);
      g[p].at[k] = w.at[k] * (w1 * c - w2 * s);
      sum += f[p].at[k];
    }
  }
  store(0, sum);
  for (int64_t r = 1; r <= orders.first; ++r) {
    const int64_t second = orders.second_row(r);
    const float sign = second == 0 ? 0.0F : static_cast<float>(orders.sign(r));
    const float kept = orders.opens(r) ? 0.0F : 1.0F;
    sum = 0;
#pragma unroll
    for (int p = 0; p < kSlabs; ++p) {
      const auto x1 = load_pack<Four>(in.x + r * stride + begin + p * kSlab);
#pragma unroll
      for (int k = 0; k < Four::kSize; ++k) {
        sum += g[p].at[k] * x1.at[k];
        squares[p].at[k] = kept * squares[p].at[k] + sign * x1.at[k] * x1.at[k];
      }
    }
    store(r, sum);
    if (second == 0 || !orders.closes(r)) continue;
    sum = 0;
#pragma unroll
    for (int p = 0; p < kSlabs; ++p) {
      const auto x2 =
          load_pack<Four>(in.x + second * stride + begin + p * kSlab);
#pragma unroll
      for (int k = 0; k < Four::kSize; ++k) {
        sum += g[p].at[k] * x2.at[k] - 0.5F * f[p].at[k] * squares[p].at[k];
      }
    }
    store(second, sum);
  }
}

// A warp has a slab of columns of every token that is its. With the numbers dy
// of a token, a = Σ dy_1 x_1 + dy_2 x_2 and d = dy_0 - Σ ±dy_2 x_1² / 2, and F
// and G without the weight w of a column:
//   dx_0 = w (G d - F a),  dx_1 = w (G dy_1 ∓ F x_1 dy_2),  dx_2 = w G dy_2,
//   dw = Σ F d + G a,  dw₁ = Σ w (d sin + a cos),  dw₂ = Σ w (d cos - a sin).
template <int kSlabs>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    backward(WaveletDot in, const float* dy, float* dx, double* partial,
             float* workspace) {
  constexpr int kTokens = kWarps / kSlabs;  // at a time
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto& orders = in.orders;
  const int64_t stride = in.tokens * in.width;
  const int64_t column = warp % kSlabs * kSlab + lane * Four::kSize;
  const auto weight = load_pack<Four>(in.weight + column);
  const float w1 = *in.w1, w2 = *in.w2;
  Four dweight = {};
  float dbias = 0;
  double sum1 = 0, sum2 = 0;
  for (int64_t token = int64_t{blockIdx.x} * kTokens + warp / kSlabs;
       token < in.tokens; token += int64_t{gridDim.x} * kTokens) {
    const int64_t begin = token * in.width + column;
    const auto x0 = load_pack<Four>(in.x + begin);
    Four s, c, f, g, a = {}, squares = {}, out;
#pragma unroll
    for (int k = 0; k < Four::kSize; ++k) {
      sine_and_cosine(x0.at[k], &s.at[k], &c.at[k]);
      f.at[k] = w1 * s.at[k] + w2 * c.at[k];
      g.at[k] = w1 * c.at[k] - w2 * s.at[k];
    }
    const float d0 = dy[token];
    dbias += d0;
    for (int64_t r = 1; r <= orders.first; ++r) {
      const float d1 = dy[r * in.tokens + token];
      const auto x1 = load_pack<Four>(in.x + r * stride + begin);
      const int64_t second = orders.second_row(r);
      float d2 = 0;  // with the sign of the direction
      if (second != 0) {
        d2 = dy[second * in.tokens + token];
        if (orders.opens(r)) {
          const auto x2 = load_pack<Four>(in.x + second * stride + begin);
#pragma unroll
          for (int k = 0; k < Four::kSize; ++k) {
            a.at[k] += d2 * x2.at[k];
            out.at[k] = weight.at[k] * g.at[k] * d2;
          }
          store_pack(out, dx + second * stride + begin);
        }
        d2 *= static_cast<float>(orders.sign(r));
      }
#pragma unroll
      for (int k = 0; k < Four::kSize; ++k) {
        const float t = d2 * x1.at[k];
        a.at[k] += d1 * x1.at[k];
        squares.at[k] += t * x1.at[k];
        out.at[k] = weight.at[k] * (g.at[k] * d1 - f.at[k] * t);
      }
      store_pack(out, dx + r * stride + begin);
    }
#pragma unroll
    for (int k = 0; k < Four::kSize; ++k) {
      const float d = d0 - 0.5F * squares.at[k];
      out.at[k] = weight.at[k] * (g.at[k] * d - f.at[k] * a.at[k]);
      dweight.at[k] += f.at[k] * d + g.at[k] * a.at[k];
      sum1 += weight.at[k] * (d * s.at[k] + a.at[k] * c.at[k]);
      sum2 += weight.at[k] * (d * c.at[k] - a.at[k] * s.at[k]);
    }
    store_pack(out, dx + begin);
  }
  __shared__ Four weights[kWarps][32];
  __shared__ float biases[kTokens];
  weights[warp][lane] = dweight;
  if (lane == 0 && warp % kSlabs == 0) biases[warp / kSlabs] = dbias;
  store_wavelet_sums<kThreads>(sum1, sum2, partial);  // waits for all threads
  float* to = workspace + blockIdx.x * (in.width + 1);
  for (int k = threadIdx.x; k <= kSlabs * kSlab; k += kThreads) {
    float sum = 0;
    for (int t = 0; t < kTokens; ++t) {
      sum += k == kSlabs * kSlab
                 ? biases[t]
                 : weights[t * kSlabs + k / kSlab][k % kSlab / Four::kSize]
                       .at[k % Four::kSize];
    }
    to[k] = sum;
  }
}

template <class Launch>
void with_slabs(int64_t width, const Launch& launch) {
  switch (width / kSlab) {
    case 1:
      return launch(std::integral_constant<int, 1>());
    case 2:
      return launch(std::integral_constant<int, 2>());
    default:
      return launch(std::integral_constant<int, 4>());
  }
}

}  // namespace

bool jet_wavelet_dot_has(int64_t width) {
  return width == kSlab || width == 2 * kSlab || width == 4 * kSlab;
}

void launch_jet_wavelet_dot(const WaveletDot& in, const float* bias, float* y,
                            cudaStream_t stream) {
  with_slabs(in.width, [&](auto slabs) {
    forward<slabs.value>
        <<<blocks_for(in.tokens, kWarps), kThreads, 0, stream>>>(in, bias, y);
  });
}

int64_t jet_wavelet_dot_blocks(const WaveletDot& in) {
  return std::min(kManyBlocks,
                  blocks_for(in.tokens, kWarps * kSlab / in.width));
}

void launch_jet_wavelet_dot_backward(const WaveletDot& in, const float* dy,
                                     float* dx, float* dweight, float* dbias,
                                     double* partial, float* workspace,
                                     cudaStream_t stream) {
  const int64_t blocks = jet_wavelet_dot_blocks(in);
  with_slabs(in.width, [&](auto slabs) {
    backward<slabs.value>
        <<<blocks, kThreads, 0, stream>>>(in, dy, dx, partial, workspace);
  });
  launch_store_partials(workspace, blocks, in.width + 1, in.width, dweight,
                        dbias, stream);
}

}  // namespace propagator::kernels
