#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace propagator::kernels {

// Sums over the rows of a (N, C) to out (C), in two stages: blocks of rows
// leave partial sums in the workspace, a second kernel adds those in a fixed
// order. The workspace has column_sums_workspace numbers of the type of
// a; its content need not be set and means nothing afterwards.
template <class Real>
int64_t column_sums_workspace(int64_t rows, int64_t width);

// out[c] = Σ_n a[n, c], or += where it adds: the gradient of a bias.
template <class Real>
void launch_column_sums(const Real* a, int64_t rows, int64_t width, bool adds,
                        Real* out, Real* workspace, cudaStream_t stream);

// The first stage of the same for dy where y > 0, while elsewhere dy becomes 0;
// `launch_add_partials` of that many blocks is the second.
template <class Real>
void launch_relu_partials(Real* dy, const Real* y, int64_t rows, int64_t width,
                          Real* workspace, cudaStream_t stream);
template <class Real>
int64_t column_sums_blocks(int64_t rows, int64_t width);

// out[c] += Σ_n a[n, c] (x[n, c] - mean[n]) rstd[n]: the gradient of a gain.
template <class Real>
void launch_normalised_column_sums(const Real* a, const Real* x,
                                   const Real* mean, const Real* rstd,
                                   int64_t rows, int64_t width, Real* out,
                                   Real* workspace, cudaStream_t stream);

// The second stage by itself. Partial sums (blocks, width) are added up over
// the blocks; the first `split` columns go to `first`, the rest to `second`. A
// null one is not wanted.
template <class Real>
void launch_add_partials(const Real* partials, int64_t blocks, int64_t width,
                         int64_t split, Real* first, Real* second,
                         cudaStream_t stream);

// The same in place of what `first` and `second` hold.
template <class Real>
void launch_store_partials(const Real* partials, int64_t blocks, int64_t width,
                           int64_t split, Real* first, Real* second,
                           cudaStream_t stream);

}  // namespace propagator::kernels
