#include "propagator/autodiff/jet_choice.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <stdexcept>

namespace propagator::autodiff {
namespace {

// All rows of a layout, of a constant with zeros behind its value, and with so
// many dimensions.
torch::Tensor all_rows(const Jet& x, int64_t rows, int64_t dims) {
  auto shape = x.rows().sizes().vec();
  shape.insert(shape.begin() + 1, static_cast<size_t>(dims - x.rows().dim()),
               1);
  const auto own = x.rows().view(shape);
  if (own.size(0) == rows) return own;
  shape[0] = rows - 1;
  return torch::cat({own, torch::zeros(shape, own.options())});
}

}  // namespace

Jet choose(const torch::Tensor& condition, const Jet& a, const Jet& b) {
  const auto& layout = a.is_constant() ? b.layout() : a.layout();
  if (!b.is_constant() && b.layout() != layout) {
    throw std::invalid_argument(
        fmt::format("[choose] expected two jets of one layout, got {} and {} "
                    "rows",
                    a.layout().rows(), b.layout().rows()));
  }
  const int64_t dims =
      std::max({condition.dim() + 1, a.rows().dim(), b.rows().dim()});
  return {torch::where(all_rows(Jet::constant(condition), 1, dims),
                       all_rows(a, layout.rows(), dims),
                       all_rows(b, layout.rows(), dims)),
          layout};
}

}  // namespace propagator::autodiff
