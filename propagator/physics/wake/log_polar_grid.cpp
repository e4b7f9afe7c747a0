#include "propagator/physics/wake/log_polar_grid.h"

#include <cmath>
#include <numbers>
#include <vector>

namespace propagator::physics {
namespace {

// The weights of f(0), f(1), …, f(count - 1) for the derivative of this order
// at `at`: that of the polynomial through them, from the moments
//   Σ_j w_j (j - at)^p = p! [p = order],  p = 0 … count - 1.
torch::Tensor derivative_weights(int64_t count, double at, int order) {
  const auto distance = torch::arange(count, torch::kFloat64) - at;
  auto moments = torch::ones({count, count}, torch::kFloat64);
  for (int64_t p = 1; p < count; ++p) {
    moments[p].copy_(moments[p - 1] * distance);
  }
  auto wanted = torch::zeros({count, 1}, torch::kFloat64);
  wanted[order] = std::tgamma(order + 1);
  return torch::linalg_solve(moments, wanted).squeeze(1);
}

}  // namespace

LogPolarGrid::LogPolarGrid(int64_t rings, int64_t modes, double outer_radius,
                           const torch::Device& device)
    : outer_radius_(outer_radius),
      spacing_(std::log(2 * outer_radius) / static_cast<double>(rings - 1)) {
  const auto real = torch::dtype(torch::kFloat64);
  const int64_t points = 3 * (modes - 1) / 2 + 1;
  const auto k = torch::arange(modes, real);
  const auto theta = (torch::arange(points, real) + 0.5) *
                     (std::numbers::pi / static_cast<double>(points));
  const auto phase = torch::outer(k, theta);
  const auto waves = torch::stack({torch::cos(phase), torch::sin(phase)});
  // Both parts are sums over the half circle; the mean counts once.
  auto scale = torch::full({modes}, 2 / static_cast<double>(points), real);
  scale[0] /= 2;
  synthesis_ = waves.to(device);
  analysis_ = (waves.transpose(1, 2) * scale).contiguous().to(device);
  angles_ = theta.to(device);
  wave_number_ = k.to(device);
  turn_ = torch::stack({k, -k}).unsqueeze(1).to(device);
  radius_ = (0.5 * torch::exp(torch::arange(rings, real) * spacing_))
                .unsqueeze(1)
                .to(device);
  first_ = make_stencil(1);
  second_ = make_stencil(2);
}

LogPolarGrid::Stencil LogPolarGrid::make_stencil(int order) const {
  const double unit = std::pow(spacing_, -order);
  const auto weights = [&](int64_t at) {
    return derivative_weights(kPoints, static_cast<double>(at), order) * unit;
  };
  Stencil stencil;
  const auto inside = weights(3);
  for (int64_t i = 0; i < kPoints; ++i) {
    stencil.inside[i] = inside[i].item<double>();
  }
  stencil.first =
      torch::stack({weights(0), weights(1), weights(2)}).to(options());
  stencil.last =
      torch::stack({weights(4), weights(5), weights(6)}).to(options());
  return stencil;
}

torch::Tensor LogPolarGrid::apply(const Stencil& stencil,
                                  const torch::Tensor& f) const {
  const int64_t n = f.size(-2), inside = n - kPoints + 1;
  auto sum = f.narrow(-2, 0, inside) * stencil.inside[0];
  for (int64_t i = 1; i < kPoints; ++i) {
    if (stencil.inside[i] == 0) continue;
    sum.add_(f.narrow(-2, i, inside), stencil.inside[i]);
  }
  return torch::cat(
      {torch::matmul(stencil.first, f.narrow(-2, 0, kPoints)), sum,
       torch::matmul(stencil.last, f.narrow(-2, n - kPoints, kPoints))},
      -2);
}

torch::Tensor LogPolarGrid::d_xi_at_wall(const torch::Tensor& f) const {
  return torch::matmul(first_.first.narrow(0, 0, 1), f.narrow(-2, 0, kPoints))
      .squeeze(-2);
}

torch::Tensor LogPolarGrid::d_theta(const torch::Tensor& modes) const {
  // (a cos kθ + b sin kθ)' = k b cos kθ - k a sin kθ
  return modes.flip(-3) * turn_;
}

torch::Tensor LogPolarGrid::to_points(const torch::Tensor& modes) const {
  return torch::matmul(modes, synthesis_);
}

torch::Tensor LogPolarGrid::to_modes(const torch::Tensor& points) const {
  return torch::bmm(points, analysis_);
}

torch::Tensor product(const torch::Tensor& f, const torch::Tensor& g) {
  auto sum = torch::zeros_like(f);
  add_product(sum, f, g, 1);
  return sum;
}

void add_product(const torch::Tensor& sum, const torch::Tensor& f,
                 const torch::Tensor& g, double factor) {
  sum[0].addcmul_(f[0], g[0], factor).addcmul_(f[1], g[1], factor);
  sum[1].addcmul_(f[0], g[1], factor).addcmul_(f[1], g[0], factor);
}

}  // namespace propagator::physics
