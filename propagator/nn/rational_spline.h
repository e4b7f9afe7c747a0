#pragma once

#include <torch/types.h>

namespace propagator::nn {

// Monotone maps of [-reach, reach] onto itself, each of `bins` pieces that are
// quotients of parabolas, with continuous slope; outside it is the identity.
// Parameters (…, 3 bins - 1) of any size: widths, heights, slopes at the inner
// knots; zeros give the identity.
struct RationalSplineOptions {
  int64_t bins = 8;
  double reach = 4;

  int64_t parameters() const { return 3 * bins - 1; }
};

// Values and the logarithms of their slopes.
struct Mapped {
  torch::Tensor value, log_slope;
};

// x (…) → (…).
Mapped rational_spline(const torch::Tensor& x, const torch::Tensor& parameters,
                       const RationalSplineOptions& options);
// The other way; log_slope is that of the inverse.
Mapped inverse_rational_spline(const torch::Tensor& y,
                               const torch::Tensor& parameters,
                               const RationalSplineOptions& options);

}  // namespace propagator::nn
