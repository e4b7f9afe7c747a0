#include "propagator/pde/geometry/shape.h"

#include <torch/utils.h>

namespace propagator::pde {

Piece piece_at(const torch::Tensor& unit, const torch::Tensor& sizes) {
  const auto ends = sizes.cumsum(0);
  const auto at = unit * ends[-1];
  const auto index = torch::searchsorted(ends, at.contiguous(), false, true)
                         .clamp_max(sizes.size(0) - 1);
  const auto size = sizes.index_select(0, index);
  const auto begin = ends.index_select(0, index) - size;
  return {index, ((at - begin) / size).clamp(0, 1)};
}

}  // namespace propagator::pde
