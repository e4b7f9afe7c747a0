#include "propagator/models/locator.h"

#include <fmt/ranges.h>
#include <torch/types.h>

#include <cmath>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/nn/dropout.h"
#include "propagator/nn/init.h"

namespace propagator::models {

void Locator::initialise(int64_t seed) {
  nn::initialise(*this, seed);
  nn::seed_dropouts(*this, seed);
}

void expect_hits(const Hits& hits, const std::string& who,
                 const DetectorShape& shape) {
  const auto text = [](const torch::Tensor& x) {
    return fmt::format("({})", fmt::join(x.sizes().vec(), ", "));
  };
  const bool fit = hits.times.dim() == 2 &&
                   hits.hit.sizes() == hits.times.sizes() &&
                   hits.positions.dim() == 2 &&
                   hits.positions.size(0) == hits.times.size(1) &&
                   hits.positions.size(1) == 3;
  if (!fit) {
    throw UsageError(fmt::format(
        "[{}] expected times (B, S), hit (B, S) and positions (S, 3), got {}, "
        "{} and {}",
        who, text(hits.times), text(hits.hit), text(hits.positions)));
  }
  if (hits.hit.scalar_type() != torch::kBool) {
    throw UsageError(fmt::format("[{}] expected hit as bool, got {}", who,
                                 toString(hits.hit.scalar_type())));
  }
  if (!shape.charge) return;
  if (!hits.charges.defined() || hits.charges.sizes() != hits.times.sizes()) {
    throw UsageError(
        fmt::format("[{}] expected charges {}, got {}", who, text(hits.times),
                    hits.charges.defined() ? text(hits.charges) : "none"));
  }
}

torch::Tensor gaussian_nll(const Located& located, const torch::Tensor& truth) {
  if (!located.factor.defined()) {
    throw UsageError(
        "[gaussian_nll] expected a model with an uncertainty, got none");
  }
  const auto gap = (truth - located.position).unbind(1);
  const auto l = [&](int64_t i, int64_t j) {
    return located.factor.select(1, i).select(1, j);
  };
  // z = L⁻¹ gap, from the top.
  const auto z0 = gap[0] / l(0, 0);
  const auto z1 = (gap[1] - l(1, 0) * z0) / l(1, 1);
  const auto z2 = (gap[2] - l(2, 0) * z0 - l(2, 1) * z1) / l(2, 2);
  const auto square = z0.square() + z1.square() + z2.square();
  const auto volume = torch::log(l(0, 0) * l(1, 1) * l(2, 2));
  return (0.5 * square + volume).mean() + 1.5 * std::log(2 * std::numbers::pi);
}

}  // namespace propagator::models
