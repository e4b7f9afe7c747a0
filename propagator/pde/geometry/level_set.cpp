#include "propagator/pde/geometry/level_set.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace propagator::pde {
namespace {

using torch::Tensor;

constexpr int64_t kCells2d = 200, kCells3d = 40;
constexpr int64_t kHalvings = 50, kNewtonSteps = 30;
// Beside the box: a point that is further from f = 0 has not arrived.
constexpr double kArrived = 1e-13;

// Between which nodes of a grid f changes its sign, and which of these
// crossings are the corners of a segment (a triangle) of the edge. Cells are
// divided into simplices, one for each order of the axes, so that what is found
// in neighbours fits together.
class Crossings {
 public:
  Crossings(const std::vector<bool>& inside, int64_t axes, int64_t per_axis)
      : inside_(inside), axes_(axes), per_axis_(per_axis) {
    std::vector<int64_t> cell(static_cast<size_t>(axes), 0);
    const int64_t cells = per_axis - 1;
    for (;;) {
      add_cell(cell);
      int64_t axis = axes - 1;
      while (axis >= 0 && ++cell[static_cast<size_t>(axis)] == cells) {
        cell[static_cast<size_t>(axis--)] = 0;
      }
      if (axis < 0) break;
    }
  }

  std::vector<int64_t> inner, outer;  // nodes on either side of each crossing
  std::vector<int64_t> corners;       // crossings, `axes` for each piece

 private:
  int64_t stride(int64_t axis) const {
    int64_t stride = 1;
    for (int64_t a = axis + 1; a < axes_; ++a) stride *= per_axis_;
    return stride;
  }

  void add_cell(const std::vector<int64_t>& cell) {
    int64_t first = 0;
    for (int64_t a = 0; a < axes_; ++a) {
      first += cell[static_cast<size_t>(a)] * stride(a);
    }
    std::vector<int64_t> order(static_cast<size_t>(axes_));
    std::iota(order.begin(), order.end(), 0);
    do {
      std::vector<int64_t> in, out;
      int64_t node = first;
      for (size_t k = 0; k <= order.size(); ++k) {
        (inside_[static_cast<size_t>(node)] ? in : out).push_back(node);
        if (k < order.size()) node += stride(order[k]);
      }
      add_simplex(in, out);
    } while (std::ranges::next_permutation(order).found);
  }

  void add_simplex(const std::vector<int64_t>& in,
                   const std::vector<int64_t>& out) {
    if (in.empty() || out.empty()) return;
    std::vector<int64_t> around;
    for (size_t i = 0; i < in.size(); ++i) {
      // Back and forth, so that neighbours in the list are neighbours in space.
      for (size_t k = 0; k < out.size(); ++k) {
        around.push_back(
            crossing(in[i], out[i % 2 == 0 ? k : out.size() - 1 - k]));
      }
    }
    // Four of a tetrahedron are two triangles.
    for (size_t k = 0; k + static_cast<size_t>(axes_) <= around.size(); ++k) {
      if (around.size() == 4 && k == 1) {
        corners.insert(corners.end(), {around[2], around[3], around[0]});
        continue;
      }
      for (size_t c = 0; c < static_cast<size_t>(axes_); ++c) {
        corners.push_back(around[k + c]);
      }
    }
  }

  int64_t crossing(int64_t in, int64_t out) {
    const auto [at, is_new] =
        known_.try_emplace(std::pair(in, out), std::ssize(inner));
    if (is_new) {
      inner.push_back(in);
      outer.push_back(out);
    }
    return at->second;
  }

  const std::vector<bool>& inside_;
  int64_t axes_, per_axis_;
  std::map<std::pair<int64_t, int64_t>, int64_t> known_;
};

Tensor on_paths(const Tensor& from, const Tensor& to, const Tensor& share) {
  return from + share.unsqueeze(1) * (to - from);
}

// Of segments (M, 2, 2) or triangles (M, 3, 3).
Tensor sizes_of(const Tensor& corners) {
  const auto a = corners.select(1, 1) - corners.select(1, 0);
  if (corners.size(1) == 2) return a.square().sum(1).sqrt();
  const auto b = corners.select(1, 2) - corners.select(1, 0);
  return torch::cross(a, b, 1).square().sum(1).sqrt() / 2;
}

}  // namespace

LevelSet::LevelSet(Formula f, Formula gradient, const Box& box)
    : f_(std::move(f)), gradient_(std::move(gradient)) {
  const int64_t axes = box.dimensions();
  const int64_t per_axis = (axes == 2 ? kCells2d : kCells3d) + 1;
  const auto nodes = sample(box, Sampling::kGrid, per_axis, /*seed=*/0, "");
  length_ = (nodes[-1] - nodes[0]).norm().item<double>();
  const auto is_inside = (f_(nodes) < 0).contiguous();
  const bool* flags = is_inside.data_ptr<bool>();
  const Crossings found(std::vector<bool>(flags, flags + is_inside.numel()),
                        axes, per_axis);
  const auto of_nodes = [&](const std::vector<int64_t>& which) {
    return nodes.index_select(0, torch::tensor(which, torch::kInt64));
  };
  const auto inner = of_nodes(found.inner), outer = of_nodes(found.outer);
  auto low = torch::zeros({inner.size(0)}, torch::kFloat64);
  auto high = torch::ones_like(low);
  for (int64_t n = 0; n < kHalvings; ++n) {
    const auto middle = (low + high) / 2;
    const auto here = f_(on_paths(inner, outer, middle)) < 0;
    low = torch::where(here, middle, low);
    high = torch::where(here, high, middle);
  }
  const auto crossings = on_paths(inner, outer, low);
  const auto pieces =
      crossings.index_select(0, torch::tensor(found.corners, torch::kInt64))
          .view({-1, axes, axes});
  const auto kept = (sizes_of(pieces) > 0).nonzero().flatten();
  corners_ = pieces.index_select(0, kept);
  sizes_ = sizes_of(corners_);
}

Tensor LevelSet::distance(const Tensor& points) const {
  const auto slope = gradient_(points).norm(2, 1).clamp_min(1e-300);
  // Where f has no number nothing is inside.
  return (f_(points) / slope)
      .nan_to_num(std::numeric_limits<double>::infinity());
}

EdgePoints LevelSet::settled(Tensor points) const {
  auto gradients = gradient_(points);
  for (int64_t n = 0; n < kNewtonSteps; ++n) {
    const auto step = f_(points) / gradients.square().sum(1);
    points = points - step.unsqueeze(1) * gradients;
    gradients = gradient_(points);
  }
  const auto slopes = gradients.norm(2, 1);
  const auto lost = (f_(points).abs() <= kArrived * length_ * slopes)
                        .logical_not()
                        .unsqueeze(1);
  return {points.masked_fill(lost, std::nan("")),
          gradients / slopes.unsqueeze(1)};
}

EdgePoints LevelSet::edge(const Tensor& unit) const {
  if (sizes_.size(0) == 0) {
    const auto none = torch::full({unit.size(0), corners_.size(2)},
                                  std::nan(""), torch::kFloat64);
    return {none, none};
  }
  const auto [piece, along] = piece_at(unit.select(1, 0), sizes_);
  const auto corners = corners_.index_select(0, piece);
  const auto a = corners.select(1, 0), b = corners.select(1, 1);
  if (corners.size(1) == 2) return settled(on_paths(a, b, along));
  const auto across = on_paths(b, corners.select(1, 2), unit.select(1, 1));
  return settled(on_paths(a, across, along.sqrt()));
}

double LevelSet::edge_size() const { return sizes_.sum().item<double>(); }

}  // namespace propagator::pde
