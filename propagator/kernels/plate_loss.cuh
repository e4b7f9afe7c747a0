#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace propagator::kernels {

template <class Real>
struct PlateField {
  int64_t batch, frames, rows, cols, visible;
  const Real* prediction;  // (B, T, R, C)
  const Real* truth;       // (B, T, R, C)
  const Real* rate;        // (B)
  const Real* kx;          // (B)
  const Real* ky;          // (B)
};

struct PlateFactors {
  double mse, physics, boundary, initial;
};

// The most columns of a plate: three rows of five frames in shared memory.
template <class Real>
constexpr int64_t kPlateLossWidest = 2730 / sizeof(Real);

// In doubles; what the workspace holds before and after means nothing.
template <class Real>
int64_t plate_loss_workspace(int64_t batch, int64_t frames, int64_t rows,
                             int64_t cols);

// The loss of plate_loss.h with its gradient by the prediction (B, T, R, C),
// its four terms and its total (1), all on the device, for T, R and C of at
// least 2, 3 and 3.
template <class Real>
void launch_plate_loss(const PlateField<Real>& field,
                       const PlateFactors& factors, Real* gradient,
                       double* terms, Real* total, double* workspace,
                       cudaStream_t stream);

}  // namespace propagator::kernels
