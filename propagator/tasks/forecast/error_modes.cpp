#include "propagator/tasks/forecast/error_modes.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <span>

namespace propagator::tasks {
namespace {

using torch::Tensor;

// Shares of a node's variance that the modes leave to the rest, at least: no
// combination of modes is believed to be exact.
constexpr double kLeastRest = 0.02;
constexpr int64_t kCounts[] = {0, 1, 2, 4, 8, 16, 32};

// Normal numbers [0, count) of a row, by pairs of uniform ones.
void fill_normal(const RandomStream& stream, int64_t row, int64_t begin,
                 std::span<double> values, std::vector<double>& uniform) {
  uniform.resize(2 * values.size());
  stream.fill(row, 2 * begin, uniform);
  for (size_t n = 0; n < values.size(); ++n) {
    values[n] = std::sqrt(-2 * std::log1p(-uniform[2 * n])) *
                std::cos(2 * std::numbers::pi * uniform[2 * n + 1]);
  }
}

// (B, count) of numbers [begin, begin + count) of each row.
Tensor normal_rows(const RandomStream& stream, const std::vector<int64_t>& rows,
                   int64_t begin, int64_t count) {
  const auto size = static_cast<int64_t>(rows.size());
  auto values = torch::empty({size, count}, torch::kFloat64);
  auto* data = values.data_ptr<double>();
  at::parallel_for(0, size, 1, [&](int64_t first, int64_t last) {
    std::vector<double> uniform;
    for (int64_t b = first; b < last; ++b) {
      fill_normal(stream, rows[static_cast<size_t>(b)], begin,
                  {data + b * count, static_cast<size_t>(count)}, uniform);
    }
  });
  return values;
}

}  // namespace

ErrorModes fit_modes(const Tensor& z, int64_t count) {
  const int64_t cases = z.size(0);
  const auto target = z.square().mean(0);
  count = std::min(count, cases);
  auto modes =
      torch::zeros({count, z.size(1), z.size(2), z.size(3)}, z.options());
  if (count > 0) {
    const auto flat = z.flatten(1);
    const auto products =
        torch::matmul(flat, flat.t()).to(torch::kFloat64) / cases;
    const auto [values, vectors] = torch::linalg_eigh(products, "L");
    // Eigenvalues rise. A mode of the nodes, times its own deviation, is the
    // cases' mean with the eigenvector's weights.
    const auto leading = vectors.slice(1, cases - count).flip(1).to(z.dtype());
    modes = torch::matmul(leading.t(), flat)
                .div(std::sqrt(static_cast<double>(cases)))
                .view_as(modes);
  }
  const auto explained = modes.square().sum(0);
  const auto allowed = (1 - kLeastRest) * target;
  const auto shrink =
      (allowed / explained.clamp_min(1e-30)).clamp_max(1).sqrt();
  modes = modes * shrink;
  return {modes, (target - modes.square().sum(0)).clamp_min(0).sqrt()};
}

// z ~ N(0, D + M Mᵀ), with D diagonal and M of a few columns: determinant and
// inverse by those of the small matrix I + Mᵀ D⁻¹ M.
double log_likelihood(const Tensor& z, const ErrorModes& modes) {
  const auto open = modes.rest.flatten() > 0;
  const auto nodes = open.nonzero().flatten();
  if (nodes.size(0) == 0) return 0;
  const auto rest = modes.rest.flatten().index_select(0, nodes);
  const auto x = z.flatten(1).index_select(1, nodes) / rest;  // (N, P)
  const auto columns =
      modes.modes.flatten(1).index_select(1, nodes) / rest;  // (K, P)
  const auto small = torch::eye(modes.count(), torch::kFloat64) +
                     torch::matmul(columns, columns.t()).to(torch::kFloat64);
  const auto projected =
      torch::matmul(columns, x.t()).to(torch::kFloat64);  // (K, N)
  auto squares = x.square().sum(1).to(torch::kFloat64);
  double determinant = 2 * rest.log().sum().item<double>();
  if (modes.count() > 0) {
    const auto root = torch::linalg_cholesky(small);
    determinant += 2 * root.diagonal().log().sum().item<double>();
    squares =
        squares - (projected * torch::cholesky_solve(projected, root)).sum(0);
  }
  return -0.5 * (squares.mean().item<double>() + determinant) /
         static_cast<double>(nodes.size(0));
}

ErrorModes choose_modes(const Tensor& z) {
  const auto fitted = z.slice(0, 0, z.size(0), 2);
  const auto tried = z.slice(0, 1, z.size(0), 2);
  int64_t best = 0;
  double highest = -std::numeric_limits<double>::infinity();
  for (const int64_t count : kCounts) {
    if (tried.size(0) == 0 || 2 * count > fitted.size(0)) break;
    const double value = log_likelihood(tried, fit_modes(fitted, count));
    if (value <= highest) continue;
    highest = value;
    best = count;
  }
  return fit_modes(z, best);
}

ErrorModes ErrorModes::scaled(const Tensor& size) const {
  const auto factor = size.to(rest.options()).view({-1, 1, 1});
  return {modes * factor, rest * factor};
}

ErrorModes unit_modes(const Tensor& z) {
  const auto inverse_root = [](const Tensor& square) {
    return torch::where(square > 0, square, torch::ones_like(square)).rsqrt();
  };
  const auto by_node = z * inverse_root(z.square().mean(0));
  const auto cases = by_node.square().mean({1, 2, 3}, /*keepdim=*/true);
  const auto found = choose_modes(by_node * inverse_root(cases));
  const auto factor =
      inverse_root(found.modes.square().sum(0) + found.rest.square());
  return {found.modes * factor, found.rest * factor};
}

models::Forecaster::FrameNoise mode_noise(const ErrorModes& modes,
                                          const RandomStream& stream,
                                          std::vector<int64_t> rows) {
  // The first numbers of a row are of the modes, the frames' follow.
  const int64_t count = modes.count();
  const auto weights = normal_rows(stream, rows, 0, count);
  const auto options = modes.rest.options();
  return [modes, stream, rows = std::move(rows), count,
          weights = weights.to(options)](int64_t t) {
    const int64_t height = modes.rest.size(1), width = modes.rest.size(2);
    const int64_t nodes = height * width;
    const auto own = normal_rows(stream, rows, count + t * nodes, nodes)
                         .to(modes.rest.options());
    auto z = own * modes.rest[t].flatten();
    if (count > 0) {
      z = z + torch::matmul(weights, modes.modes.select(1, t).flatten(1));
    }
    return z.view({-1, 1, height, width});
  };
}

}  // namespace propagator::tasks
