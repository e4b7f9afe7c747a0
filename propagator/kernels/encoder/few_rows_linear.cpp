#include "propagator/kernels/encoder/few_rows_linear.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "propagator/kernels/lanes.h"

namespace propagator::kernels {
namespace {

constexpr int64_t kRowsAtOnce = 4;

// `Rows` rows of x against one row of W, which stays in the first cache.
template <int64_t Rows, class Real>
void dot_rows(const Real* x, const Real* w, int64_t inputs, Real bias, Real* y,
              int64_t outputs) {
  Lanes<Real> sums[Rows] = {};
  constexpr int64_t kLanes = Lanes<Real>::kCount;
  int64_t i = 0;
  for (; i + kLanes <= inputs; i += kLanes) {
    for (int64_t r = 0; r < Rows; ++r) {
      sums[r].add_product(x + r * inputs + i, w + i);
    }
  }
  for (int64_t r = 0; r < Rows; ++r) {
    Real sum = sums[r].sum() + bias;
    for (int64_t k = i; k < inputs; ++k) sum += x[r * inputs + k] * w[k];
    y[r * outputs] = sum;
  }
}

}  // namespace

torch::Tensor few_rows_linear_reference(const torch::Tensor& x,
                                        const torch::Tensor& w,
                                        const torch::Tensor& bias) {
  return torch::linear(
      x, w, bias.defined() ? c10::optional<torch::Tensor>(bias) : c10::nullopt);
}

torch::Tensor few_rows_linear(const torch::Tensor& x, const torch::Tensor& w,
                              const torch::Tensor& bias) {
  if (!x.is_cpu() || x.scalar_type() != w.scalar_type()) {
    return few_rows_linear_reference(x, w, bias);
  }
  const int64_t rows = x.size(0), inputs = w.size(1), outputs = w.size(0);
  const auto values = x.contiguous();
  auto y = torch::empty({rows, outputs}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "few_rows_linear", [&] {
    const auto* px = values.data_ptr<scalar_t>();
    const auto* pw = w.data_ptr<scalar_t>();
    const auto* pb = bias.defined() ? bias.data_ptr<scalar_t>() : nullptr;
    auto* py = y.data_ptr<scalar_t>();
    at::parallel_for(0, outputs, 64, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const scalar_t b = pb == nullptr ? scalar_t(0) : pb[o];
        const auto* row = pw + o * inputs;
        int64_t r = 0;
        for (; r + kRowsAtOnce <= rows; r += kRowsAtOnce) {
          dot_rows<kRowsAtOnce>(px + r * inputs, row, inputs, b,
                                py + r * outputs + o, outputs);
        }
        for (; r < rows; ++r) {
          dot_rows<1>(px + r * inputs, row, inputs, b, py + r * outputs + o,
                      outputs);
        }
      }
    });
  });
  return y;
}

}  // namespace propagator::kernels
