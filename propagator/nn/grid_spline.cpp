#include "propagator/nn/grid_spline.h"

#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <stdexcept>

namespace propagator::nn {
namespace {

using autodiff::Jet;
using torch::Tensor;

constexpr int64_t kPieces = 4;

// (M; N, A) and (M; N, B) → (M; N, A B).
Jet outer(const Jet& a, const Jet& b) {
  const auto left =
      a.linear([](const Tensor& rows) { return rows.unsqueeze(-1); });
  const auto right =
      b.linear([](const Tensor& rows) { return rows.unsqueeze(-2); });
  return (left * right).linear([](const Tensor& rows) {
    return rows.flatten(-2);
  });
}

}  // namespace

GridSplineImpl::GridSplineImpl(std::vector<int64_t> nodes,
                               const std::vector<double>& low,
                               const std::vector<double>& high)
    : nodes_(std::move(nodes)) {
  std::vector<double> per_step, last;
  for (size_t d = 0; d < nodes_.size(); ++d) {
    if (nodes_[d] < kPieces) {
      throw std::invalid_argument(fmt::format(
          "[grid_spline] expected {} nodes or more along each axis, got {}",
          kPieces, fmt::join(nodes_, ", ")));
    }
    const auto cells = static_cast<double>(nodes_[d] - kPieces + 1);
    per_step.push_back(cells / (high[d] - low[d]));
    last.push_back(cells - 1);
  }
  const auto buffer = [this](const char* name, const Tensor& value) {
    return register_buffer(name, value);
  };
  low_ = buffer("low", torch::tensor(low, torch::kFloat64));
  per_step_ = buffer("per_step", torch::tensor(per_step, torch::kFloat64));
  last_ = buffer("last", torch::tensor(last, torch::kFloat64));
  // Of s, s² and s³, in sixths.
  powers_ =
      buffer("powers",
             torch::tensor(
                 {{-3., 3., -1.}, {0., -6., 3.}, {3., 3., -3.}, {0., 0., 1.}},
                 torch::kFloat64) /
                 6);
  constant_ =
      buffer("constant", torch::tensor({1., 4., 1., 0.}, torch::kFloat64) / 6);
}

Jet GridSplineImpl::forward(const Tensor& coefficients, const Jet& points) {
  const auto type = points.rows().scalar_type();
  const auto at = (points + -low_.to(type)) * per_step_.to(type);  // in steps
  const auto where = at.value().detach();
  const auto cell = torch::minimum(where.floor().clamp_min(0), last_.to(type));
  const auto s = (at + -cell).linear([](const Tensor& rows) {
    return rows.unsqueeze(-1);  // (M, N, D, 1)
  });
  const auto square = s * s;
  const auto pieces =
      autodiff::linear(autodiff::cat({s, square, square * s}, -1),
                       powers_.to(type), constant_.to(type));  // (M; N, D, 4)
  const auto first = cell.to(torch::kInt64);
  const auto steps = torch::arange(kPieces, first.options());
  Jet weights;
  Tensor index;  // (N, 4^D), as weights
  for (int64_t d = 0; d < std::ssize(nodes_); ++d) {
    const auto of_axis =
        pieces.linear([d](const Tensor& rows) { return rows.select(-2, d); });
    const auto along = first.select(1, d).unsqueeze(1) + steps;  // (N, 4)
    weights = d == 0 ? of_axis : outer(weights, of_axis);
    index = d == 0 ? along
                   : (index.unsqueeze(2) * nodes_[static_cast<size_t>(d)] +
                      along.unsqueeze(1))
                         .flatten(1);
  }
  // As an embedding, whose gradient is a sum in a fixed order on CUDA too.
  const auto near = torch::embedding(coefficients.to(type).flatten(0, -2),
                                     index);  // (N, 4^D, F)
  return weights.linear([&near](const Tensor& rows) {
    return torch::bmm(rows.transpose(0, 1), near).transpose(0, 1);
  });
}

Tensor GridSplineImpl::nearest(const Tensor& points) const {
  const auto at =
      (points - low_.to(points.options())) * per_step_.to(points.options());
  const auto node =
      torch::minimum(at.round().clamp_min(0), last_.to(points.options()) + 1)
          .to(torch::kInt64);
  auto index = node.select(1, 0) + 1;
  for (int64_t d = 1; d < std::ssize(nodes_); ++d) {
    index = index * nodes_[static_cast<size_t>(d)] + node.select(1, d) + 1;
  }
  return index;
}

Tensor GridSplineImpl::places(const torch::TensorOptions& options) const {
  std::vector<Tensor> axes;
  for (const int64_t n : nodes_) {
    axes.push_back((torch::arange(n, options) - 1) *
                       (2.0 / static_cast<double>(n - 3)) -
                   1);
  }
  return torch::stack(torch::meshgrid(axes, "ij"), -1);
}

}  // namespace propagator::nn
