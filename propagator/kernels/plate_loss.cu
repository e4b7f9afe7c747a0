#include <algorithm>

#include "propagator/kernels/plate_loss.cuh"
#include "propagator/kernels/warp.cuh"

namespace propagator::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kFrames = 4;  // of one block
constexpr int64_t kSharedBytes = 40 * 1024;

// How the field is cut: a block has kFrames frames of `band` rows of a case.
// Beside them it holds a frame of residuals before and a row on either side.
struct Cut {
  int64_t chunks, bands, band;
};

template <class Real>
Cut cut_field(int64_t frames, int64_t rows, int64_t cols) {
  const int64_t row_bytes = (kFrames + 1) * cols * sizeof(Real);
  const int64_t most = std::max<int64_t>(1, kSharedBytes / row_bytes - 2);
  const int64_t band = blocks_for(rows, blocks_for(rows, most));
  return {blocks_for(frames, kFrames), blocks_for(rows, band), band};
}

struct Sums {
  double mse = 0, physics = 0, boundary = 0, initial = 0;
};

// What the gradient multiplies errors and residuals with; side: left and
// right edge, lid: top and bottom.
template <class Real>
struct Scales {
  Real mse, physics, initial, side, lid;
};

// A block's part of a case: frames [begin, end), rows [top, bottom).
template <class Real>
struct Part {
  const Real* prediction;  // of frame `begin`, like the next two
  const Real* truth;
  Real* gradient;
  Real rate, kx, ky;
  int begin, end, top, bottom;
  int frames, rows, cols, visible;

  // Where frame n begins.
  __device__ int frame(int n) const { return (n - begin) * rows * cols; }
  __device__ int plane() const { return (bottom - top + 2) * cols; }
  __device__ bool side(int i) const { return i == 0 || i + 1 == cols; }
  __device__ bool lid(int j) const { return j == 0 || j + 1 == rows; }
};

template <class Real>
__device__ Part<Real> part_of_block(const PlateField<Real>& field,
                                    const Cut& cut, Real* gradient) {
  const auto chunks = static_cast<unsigned>(cut.chunks);
  const auto bands = static_cast<unsigned>(cut.bands);
  const int b = blockIdx.x / (chunks * bands);
  const int begin = blockIdx.x / bands % chunks * kFrames;
  const int top = blockIdx.x % bands * static_cast<int>(cut.band);
  const int frames = static_cast<int>(field.frames);
  const int rows = static_cast<int>(field.rows);
  const int64_t start = (b * field.frames + begin) * field.rows * field.cols;
  return {field.prediction + start,
          field.truth + start,
          gradient + start,
          field.rate[b],
          field.kx[b],
          field.ky[b],
          begin,
          min(begin + kFrames, frames),
          top,
          min(top + static_cast<int>(cut.band), rows),
          frames,
          rows,
          static_cast<int>(field.cols),
          static_cast<int>(field.visible)};
}

// Frames without a residual are computed from others and then dropped, so
// that all loads can start at once.
template <class Real>
__device__ void residuals_of_node(const Part<Real>& part, int node,
                                  Real (&values)[kFrames + 1]) {
  const int cols = part.cols;
  Real here[kFrames + 2], lap_x[kFrames + 1], lap_y[kFrames + 1];
#pragma unroll
  for (int k = 0; k <= kFrames + 1; ++k) {
    const int n = min(max(part.begin - 1 + k, 0), part.frames - 1);
    const Real* p = part.prediction + part.frame(n) + node;
    here[k] = p[0];
    if (k > kFrames) continue;
    lap_x[k] = p[1] - 2 * p[0] + p[-1];
    lap_y[k] = p[cols] - 2 * p[0] + p[-cols];
  }
#pragma unroll
  for (int k = 0; k <= kFrames; ++k) {
    const int n = part.begin - 1 + k;
    const bool exists = n >= 0 && n + 1 < part.frames;
    const Real value = part.rate * (here[k + 1] - here[k]) -
                       part.kx * lap_x[k] - part.ky * lap_y[k];
    values[k] = exists ? value : 0;
  }
}

// Residuals of frames begin - 1 to begin + kFrames - 1 and rows top - 1 to
// bottom; zero on the plate's edge and where a frame has none. So the left
// neighbour of column 0, in memory the last column of the row above, is zero
// as it should be, and likewise on the right.
template <class Real>
__device__ double residuals(const Part<Real>& part, Real* r) {
  const int cols = part.cols, plane = part.plane();
  double sum = 0;
  for (int node = threadIdx.x; node < plane; node += kThreads) {
    const int i = node % cols, j = part.top - 1 + node / cols;
    Real values[kFrames + 1] = {};
    if (j > 0 && j + 1 < part.rows && !part.side(i)) {
      residuals_of_node(part, j * cols + i, values);
    }
    const bool own = j >= part.top && j < part.bottom;
#pragma unroll
    for (int k = 0; k <= kFrames; ++k) {
      r[k * plane + node] = values[k];
      if (own && k > 0) sum += static_cast<double>(values[k]) * values[k];
    }
  }
  return sum;
}

// The gradient at the part's nodes, and the sums that need no residual.
template <class Real>
__device__ Sums gradients(const Part<Real>& part, const Scales<Real>& scales,
                          const Real* r) {
  const int cols = part.cols, plane = part.plane();
  const int nodes = (part.bottom - part.top) * cols;
  const Real centre = -part.rate + 2 * part.kx + 2 * part.ky;
  Sums sums;
  double side_sum = 0, lid_sum = 0;
  for (int node = threadIdx.x; node < nodes; node += kThreads) {
    const int i = node % cols, j = part.top + node / cols;
    const bool side = part.side(i), lid = part.lid(j);
    const Real weight =
        scales.mse + (side ? scales.side : 0) + (lid ? scales.lid : 0);
    Real e[kFrames];
#pragma unroll
    for (int k = 0; k < kFrames; ++k) {
      const int n = min(part.begin + k, part.end - 1);
      const int at = part.frame(n) + j * cols + i;
      e[k] = part.prediction[at] - part.truth[at];
    }
    const Real* now = r + cols + node;
    double sum = 0;
#pragma unroll
    for (int k = 0; k < kFrames; ++k) {
      const int n = part.begin + k;
      if (n >= part.end) break;
      const Real before = now[0];
      now += plane;
      const bool initial = n < part.visible;
      const Real physics = centre * now[0] - part.kx * (now[-1] + now[1]) -
                           part.ky * (now[-cols] + now[cols]) +
                           part.rate * before;
      part.gradient[part.frame(n) + j * cols + i] =
          (weight + (initial ? scales.initial : 0)) * e[k] +
          scales.physics * physics;
      const double square = static_cast<double>(e[k]) * e[k];
      sum += square;
      if (initial) sums.initial += square;
    }
    sums.mse += sum;
    if (side) side_sum += sum;
    if (lid) lid_sum += sum;
  }
  sums.boundary = side_sum / part.rows + lid_sum / part.cols;
  return sums;
}

template <class Real>
__global__ void __launch_bounds__(kThreads, sizeof(Real) == 4 ? 4 : 2)
    plate_loss_parts(PlateField<Real> field, Cut cut, Scales<Real> scales,
                     Real* gradient, double* workspace) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ double warp_sums[kWarps][4];
  auto* r = reinterpret_cast<Real*>(shared);
  const auto part = part_of_block(field, cut, gradient);
  const double physics = residuals(part, r);
  __syncthreads();
  const Sums sums = gradients(part, scales, r);
  const double mine[4] = {warp_sum(sums.mse), warp_sum(physics),
                          warp_sum(sums.boundary), warp_sum(sums.initial)};
  if (threadIdx.x % 32 == 0) {
    for (int k = 0; k < 4; ++k) warp_sums[threadIdx.x / 32][k] = mine[k];
  }
  __syncthreads();
  if (threadIdx.x >= 4) return;
  double sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += warp_sums[w][threadIdx.x];
  workspace[int64_t{blockIdx.x} * 4 + threadIdx.x] = sum;
}

// Thread t adds numbers t, t + kThreads, … of (blocks, 4): all of term t % 4.
template <class Real>
__global__ void __launch_bounds__(kThreads)
    plate_loss_total(const double* workspace, int64_t blocks, Sums counts,
                     PlateFactors factors, double* terms, Real* total) {
  __shared__ double warp_sums[kWarps][4];
  double sum = 0;
#pragma unroll 8
  for (int64_t at = threadIdx.x; at < 4 * blocks; at += kThreads) {
    sum += workspace[at];
  }
  sum = warp_sum<4>(sum);
  if (threadIdx.x % 32 < 4) warp_sums[threadIdx.x / 32][threadIdx.x % 4] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < kWarps; ++w) {
    for (int k = 0; k < 4; ++k) warp_sums[0][k] += warp_sums[w][k];
  }
  terms[0] = warp_sums[0][0] / counts.mse;
  terms[1] = warp_sums[0][1] / counts.physics;
  terms[2] = warp_sums[0][2] / counts.boundary;
  terms[3] = warp_sums[0][3] / counts.initial;
  *total = static_cast<Real>(
      factors.mse * terms[0] + factors.physics * terms[1] +
      factors.boundary * terms[2] + factors.initial * terms[3]);
}

// What the sums are divided by to give the terms.
template <class Real>
Sums counts_of(const PlateField<Real>& field) {
  const auto count = [&](int64_t n) {
    return static_cast<double>(field.batch * n);
  };
  return {
      count(field.frames * field.rows * field.cols),
      count((field.frames - 1) * (field.rows - 2) * (field.cols - 2)),
      count(field.frames),
      count(std::min(field.visible, field.frames) * field.rows * field.cols)};
}

}  // namespace

template <class Real>
int64_t plate_loss_workspace(int64_t batch, int64_t frames, int64_t rows,
                             int64_t cols) {
  const Cut cut = cut_field<Real>(frames, rows, cols);
  return 4 * batch * cut.chunks * cut.bands;
}

template <class Real>
void launch_plate_loss(const PlateField<Real>& field,
                       const PlateFactors& factors, Real* gradient,
                       double* terms, Real* total, double* workspace,
                       cudaStream_t stream) {
  const Cut cut = cut_field<Real>(field.frames, field.rows, field.cols);
  const Sums counts = counts_of(field);
  const auto twice = [](double factor, double count) {
    return static_cast<Real>(2 * factor / count);
  };
  const Scales<Real> scales{
      twice(factors.mse, counts.mse), twice(factors.physics, counts.physics),
      twice(factors.initial, counts.initial),
      twice(factors.boundary, counts.boundary * field.rows),
      twice(factors.boundary, counts.boundary * field.cols)};
  const int64_t blocks = field.batch * cut.chunks * cut.bands;
  const size_t bytes =
      (kFrames + 1) * (cut.band + 2) * field.cols * sizeof(Real);
  plate_loss_parts<<<static_cast<unsigned>(blocks), kThreads, bytes, stream>>>(
      field, cut, scales, gradient, workspace);
  plate_loss_total<<<1, kThreads, 0, stream>>>(workspace, blocks, counts,
                                               factors, terms, total);
}

#define INSTANTIATE(Real)                                                     \
  template int64_t plate_loss_workspace<Real>(int64_t, int64_t, int64_t,      \
                                              int64_t);                       \
  template void launch_plate_loss(const PlateField<Real>&,                    \
                                  const PlateFactors&, Real*, double*, Real*, \
                                  double*, cudaStream_t);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace propagator::kernels
