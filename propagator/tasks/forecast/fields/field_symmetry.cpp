#include "propagator/tasks/forecast/fields/field_symmetry.h"

#include <torch/utils.h>

#include <algorithm>
#include <numeric>

namespace propagator::tasks {

using torch::Tensor;

SymmetricViews::SymmetricViews(FieldSymmetry symmetry,
                               const std::vector<int64_t>& nodes,
                               const torch::Device& device) {
  const int64_t all = std::accumulate(nodes.begin(), nodes.end(), int64_t{1},
                                      std::multiplies<>());
  const auto grid = torch::arange(all).view(nodes);
  std::vector<int64_t> order(nodes.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const size_t mirrors =
      symmetry == FieldSymmetry::kNone ? 1 : size_t{1} << nodes.size();
  std::vector<Tensor> views;
  do {
    for (size_t sides = 0; sides < mirrors; ++sides) {
      std::vector<int64_t> mirrored;
      for (size_t d = 0; d < nodes.size(); ++d) {
        if ((sides >> d & 1) != 0) mirrored.push_back(static_cast<int64_t>(d));
      }
      views.push_back(grid.permute(order).flip(mirrored).flatten());
    }
  } while (symmetry == FieldSymmetry::kSquare &&
           std::ranges::next_permutation(order).found);
  views_ = torch::stack(views).to(device);
}

Tensor SymmetricViews::of(const Tensor& frames, const Tensor& which) const {
  const auto index =
      views_.index_select(0, which.to(views_.device()).remainder(count()));
  const auto flat = frames.flatten(2, -2);  // (B, T, nodes, C)
  return flat.gather(2, index.unsqueeze(1).unsqueeze(-1).expand(flat.sizes()))
      .view(frames.sizes());
}

}  // namespace propagator::tasks
