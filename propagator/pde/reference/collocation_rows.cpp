#include "propagator/pde/reference/collocation_rows.h"

#include <torch/utils.h>

#include <algorithm>

namespace propagator::pde {

using torch::Tensor;

CollocationRows::CollocationRows(const SpectralGrid& grid,
                                 const pde::Expression& residual,
                                 const SpectralGrid::Places& places,
                                 int64_t owner)
    : residual_(residual), points_(grid.points(places, owner)), owner_(owner) {
  for (const auto& derivative : residual.derivatives()) {
    symbols_.push_back(derivative);
    operators_.push_back(grid.derivative(derivative, places, owner));
  }
}

Jet CollocationRows::evaluate(const Tensor& u, const Tensor& corners,
                              bool moving) const {
  const autodiff::JetLayout layout(
      std::vector<int64_t>(moving ? symbols_.size() : 0, 1));
  const auto field = [&](const Derivative& derivative) {
    const auto k = std::ranges::find(symbols_, derivative) - symbols_.begin();
    const auto value = torch::matmul(u, operators_[static_cast<size_t>(k)].t());
    if (!moving) return Jet::constant(value);
    auto rows = torch::zeros({layout.rows(), value.size(0), value.size(1)},
                             torch::kFloat64);
    rows[0].copy_(value);
    rows[1 + k].fill_(1);
    return Jet(rows, layout);
  };
  const auto points = corners.unsqueeze(1) + points_;  // (E, P, D)
  return residual_.evaluate(
      {autodiff::coordinates(Jet::constant(points)), field});
}

Tensor CollocationRows::values(const Tensor& u, const Tensor& corners) const {
  return evaluate(u, corners, /*moving=*/false).value();
}

Tensor CollocationRows::jacobian(const Tensor& u, const Tensor& corners) const {
  const auto slopes = evaluate(u, corners, /*moving=*/true).rows();
  Tensor sum;
  for (size_t k = 0; k < symbols_.size(); ++k) {
    const auto slope = slopes[static_cast<int64_t>(k) + 1].unsqueeze(-1);
    sum = sum.defined() ? sum.addcmul_(slope, operators_[k])
                        : slope * operators_[k];
  }
  return sum;
}

Tensor CollocationRows::alone(const Derivative& derivative,
                              const Tensor& corners) const {
  const auto found = std::ranges::find(symbols_, derivative);
  if (found == symbols_.end()) return {};
  const auto nothing = torch::zeros(
      {corners.size(0), operators_.front().size(1)}, torch::kFloat64);
  const auto jet = evaluate(nothing, corners, /*moving=*/true);
  const auto value = -jet.value() / jet.rows()[1 + (found - symbols_.begin())];
  return value.isfinite().all().item<bool>() ? value : Tensor();
}

}  // namespace propagator::pde
