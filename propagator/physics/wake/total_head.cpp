#include "propagator/physics/wake/total_head.h"

namespace propagator::physics {
namespace {

// ∫ f dξ from each ring to the last, of fourth order: between two rings the
// cubic through four.
torch::Tensor integral_to_last(const torch::Tensor& f, double spacing) {
  const int64_t n = f.size(0), inside = n - 3;
  const auto ends = torch::tensor({9.0, 19.0, -5.0, 1.0}, f.options()) / 24;
  const auto middle = (13 * (f.narrow(0, 1, inside) + f.narrow(0, 2, inside)) -
                       f.narrow(0, 0, inside) - f.narrow(0, 3, inside)) /
                      24;
  const auto pieces =
      torch::cat({(ends * f.narrow(0, 0, 4)).sum().view(1), middle,
                  (ends.flip(0) * f.narrow(0, n - 4, 4)).sum().view(1),
                  torch::zeros({1}, f.options())});
  return pieces.flip(0).cumsum(0).flip(0) * spacing;
}

}  // namespace

torch::Tensor total_head(const LogPolarGrid& grid, const torch::Tensor& stream,
                         const torch::Tensor& stream_rate,
                         const torch::Tensor& vorticity, double viscosity,
                         double outside) {
  const int64_t n = grid.rings();
  const auto at_points = grid.to_points(
      torch::cat({grid.d_theta(stream), grid.d_xi(stream), vorticity}, 1));
  const auto part = [&](int64_t i) { return at_points.narrow(1, i * n, n); };
  const auto along = grid.d_xi(stream_rate) + grid.d_xi(vorticity) * viscosity -
                     grid.to_modes(product(part(0), part(2)));
  // H_θ has the modes k b and -k a of H.
  const auto k = grid.wave_number().clamp_min(1);
  auto head = torch::stack({-along[1] / k, along[0] / k});
  const auto outwards =
      -grid.to_modes(product(part(1), part(2)))[0].select(1, 0);
  head.select(2, 0).fill_(0);
  head[0].select(1, 0).copy_(outside -
                             integral_to_last(outwards, grid.spacing()));
  return head;
}

}  // namespace propagator::physics
