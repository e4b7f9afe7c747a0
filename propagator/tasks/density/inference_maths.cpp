#include "propagator/tasks/density/inference_maths.h"

#include <torch/utils.h>

#include <numbers>

namespace propagator::tasks {

using torch::Tensor;

Tensor normal_rows(const RandomStream& stream, int64_t begin, int64_t count,
                   int64_t first, int64_t columns) {
  auto uniform = torch::empty({count, 2 * columns}, torch::kFloat64);
  auto* at = uniform.data_ptr<double>();
  for (int64_t n = 0; n < count; ++n) {
    stream.fill(begin + n, first,
                {at + n * 2 * columns, static_cast<size_t>(2 * columns)});
  }
  const auto radius =
      torch::sqrt(-2 * torch::log1p(-uniform.narrow(1, 0, columns)));
  return radius *
         torch::cos(2 * std::numbers::pi * uniform.narrow(1, columns, columns));
}

Tensor simpson_weights(const Tensor& places) {
  auto weights =
      torch::full_like(places, (places[1] - places[0]).item<double>() * 2 / 3);
  weights.slice(0, 1, {}, 2) *= 2;
  weights[0] /= 2;
  weights[-1] /= 2;
  return weights;
}

Tensor summit(const Tensor& left, const Tensor& middle, const Tensor& right) {
  const auto bend = left - 2 * middle + right;
  return torch::where(bend < 0, (left - right) / (2 * bend),
                      torch::zeros_like(bend))
      .clamp(-0.5, 0.5);
}

}  // namespace propagator::tasks
