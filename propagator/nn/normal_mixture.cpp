#include "propagator/nn/normal_mixture.h"

#include <torch/utils.h>

#include <numbers>

#include "propagator/kernels/mixture_log_prob.h"

namespace propagator::nn {

using torch::Tensor;

namespace {

// Widths between exp(-7) and exp(7), in units of the data's spread.
constexpr double kMostLogWidth = 7;
constexpr double kReach = 2;

// Where the components of such numbers begin: alike they would stay so.
Tensor places(const Tensor& raw) {
  const int64_t count = raw.size(-1) / 3;
  const double reach = count > 1 ? kReach : 0;
  return torch::linspace(-reach, reach, count, raw.options());
}

}  // namespace

Tensor normal_from_uniform(const Tensor& uniform) {
  // The least number that leaves 2 u - 1 above -1.
  const double least =
      uniform.scalar_type() == torch::kFloat64 ? 0x1p-54 : 0x1p-25;
  return std::numbers::sqrt2 * torch::erfinv(2 * uniform.clamp_min(least) - 1);
}

NormalMixture NormalMixture::of(const Tensor& raw) {
  const auto parts = raw.chunk(3, -1);
  return {torch::log_softmax(parts[0], -1), parts[1] + places(raw),
          kMostLogWidth * torch::tanh(parts[2] / kMostLogWidth)};
}

Tensor NormalMixture::log_prob(const Tensor& raw, const Tensor& x) {
  return kernels::mixture_log_prob(raw, x, places(raw), kMostLogWidth);
}

Tensor NormalMixture::sample(const Tensor& uniform,
                             const Tensor& normal) const {
  const auto index =
      (torch::cumsum(log_weight.exp(), -1) < uniform.unsqueeze(-1))
          .sum(-1, /*keepdim=*/true)
          .clamp_max(log_weight.size(-1) - 1);
  const auto pick = [&](const Tensor& all) {
    return all.gather(-1, index).squeeze(-1);
  };
  return pick(mean) + pick(log_width).exp() * normal;
}

MixtureNumbers draw_mixture_numbers(int64_t count, int64_t variables,
                                    const RandomStream& stream,
                                    const torch::TensorOptions& options) {
  const auto drawn =
      stream.uniform({count, 2 * variables}, 0, 1, torch::kFloat64);
  return {
      drawn.narrow(1, 0, variables).to(options),
      normal_from_uniform(drawn.narrow(1, variables, variables)).to(options)};
}

}  // namespace propagator::nn
