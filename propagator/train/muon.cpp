#include "propagator/train/muon.h"

#include <algorithm>
#include <cmath>

namespace propagator::train {
namespace {

// Root mean square of an entry's move, in units of lr.
constexpr double kScale = 0.2;
constexpr int kIterations = 5;
constexpr double kA = 3.4445, kB = -4.775, kC = 2.0315;

}  // namespace

torch::Tensor matrices_of(const torch::Tensor& flat,
                          const FlatParameters::Stack& stack) {
  return flat.as_strided({stack.count, stack.rows, stack.columns},
                         {stack.stride, stack.columns, 1}, stack.offset);
}

torch::Tensor orthogonalised(const torch::Tensor& x) {
  const bool tall = x.size(1) > x.size(2);
  auto y = tall ? x.transpose(1, 2) : x;
  // In two steps: the squares of a mean gradient that has died away would
  // round to nothing, and values above one grow without bound.
  const auto over = [](const torch::Tensor& a, const torch::Tensor& size) {
    return a / torch::where(size > 0, size, torch::ones_like(size));
  };
  y = over(y, y.abs().amax({1, 2}, /*keepdim=*/true));
  y = over(y, y.square().sum({1, 2}, /*keepdim=*/true).sqrt());
  // A direction needs few digits, and tensor cores give those fast.
  if (x.is_cuda()) y = y.to(torch::kBFloat16);
  for (int n = 0; n < kIterations; ++n) {
    const auto square = torch::bmm(y, y.transpose(1, 2));
    const auto polynomial = torch::baddbmm(square, square, square, kB, kC);
    y = torch::baddbmm(y, polynomial, y, kA);
  }
  return (tall ? y.transpose(1, 2) : y).to(x.dtype());
}

void muon_step(torch::Tensor w, const torch::Tensor& g, torch::Tensor m,
               const torch::Tensor& lr, double momentum) {
  m.mul_(momentum).add_(g, 1 - momentum);
  const auto ahead = momentum * m + (1 - momentum) * g;
  const double side = static_cast<double>(std::max(w.size(1), w.size(2)));
  w.sub_(orthogonalised(ahead) * (lr * (kScale * std::sqrt(side))));
}

}  // namespace propagator::train
