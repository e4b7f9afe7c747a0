#include "propagator/nn/rational_spline.h"

#include <torch/nn/functional/padding.h>
#include <torch/utils.h>

#include <cmath>

namespace propagator::nn {
namespace {

using torch::Tensor;

constexpr double kLeastShare = 1e-3;  // of the reach, of a width or a height
constexpr double kLeastSlope = 1e-3;

// The piece that a number is in.
struct Piece {
  Tensor x, width, y, height;  // (…) its corner, and how far it goes
  Tensor left, right;          // slopes at its ends
  Tensor mean;                 // height / width
};

// Knots (…, bins + 1) from -reach to reach.
Tensor knots_of(const Tensor& raw, const RationalSplineOptions& o) {
  const double bins = static_cast<double>(o.bins);
  const auto shares =
      kLeastShare + (1 - kLeastShare * bins) * torch::softmax(raw, -1);
  const auto inner = torch::cumsum(shares, -1).narrow(-1, 0, o.bins - 1);
  const auto zero = torch::zeros_like(raw.narrow(-1, 0, 1));
  return o.reach *
         (2 * torch::cat({zero, inner, torch::ones_like(zero)}, -1) - 1);
}

// Slopes (…, bins + 1), 1 at the ends; a parameter of 0 gives 1.
Tensor slopes_of(const Tensor& raw) {
  const double shift = std::log(std::expm1(1 - kLeastSlope));
  const auto inner = kLeastSlope + torch::softplus(raw + shift);
  return torch::constant_pad_nd(inner, {1, 1}, 1);
}

// That which has `at` between its knots, of x or, if `by_y`, of y.
Piece piece_of(const Tensor& at, const Tensor& parameters,
               const RationalSplineOptions& o, bool by_y) {
  const auto xs = knots_of(parameters.narrow(-1, 0, o.bins), o);
  const auto ys = knots_of(parameters.narrow(-1, o.bins, o.bins), o);
  const auto slopes = slopes_of(parameters.narrow(-1, 2 * o.bins, o.bins - 1));
  const auto inner = (by_y ? ys : xs).narrow(-1, 1, o.bins - 1);
  const auto index =
      (at.unsqueeze(-1) >= inner).sum(-1, /*keepdim=*/true);  // (…, 1)
  const auto pick = [&](const Tensor& from, int64_t further) {
    return from.gather(-1, index + further).squeeze(-1);
  };
  Piece piece;
  piece.x = pick(xs, 0);
  piece.y = pick(ys, 0);
  piece.width = pick(xs, 1) - piece.x;
  piece.height = pick(ys, 1) - piece.y;
  piece.left = pick(slopes, 0);
  piece.right = pick(slopes, 1);
  piece.mean = piece.height / piece.width;
  return piece;
}

// log dy/dx at the share u of a piece's width.
Tensor log_slope_at(const Piece& p, const Tensor& u) {
  const auto both = u * (1 - u);
  const auto below = p.mean + (p.left + p.right - 2 * p.mean) * both;
  const auto above =
      p.right * u.square() + 2 * p.mean * both + p.left * (1 - u).square();
  return 2 * (torch::log(p.mean) - torch::log(below)) + torch::log(above);
}

// What is outside stays as it is.
Mapped inside_only(const Tensor& at, const Tensor& inside, const Mapped& to) {
  return {torch::where(inside, to.value, at),
          torch::where(inside, to.log_slope, torch::zeros_like(at))};
}

}  // namespace

Mapped rational_spline(const Tensor& x, const Tensor& parameters,
                       const RationalSplineOptions& o) {
  const auto inside = x.abs() < o.reach;
  const auto at = torch::where(inside, x, torch::zeros_like(x));
  const auto p = piece_of(at, parameters, o, /*by_y=*/false);
  const auto u = (at - p.x) / p.width;
  const auto both = u * (1 - u);
  const auto y = p.y + p.height * (p.mean * u.square() + p.left * both) /
                           (p.mean + (p.left + p.right - 2 * p.mean) * both);
  return inside_only(x, inside, {y, log_slope_at(p, u)});
}

Mapped inverse_rational_spline(const Tensor& y, const Tensor& parameters,
                               const RationalSplineOptions& o) {
  const auto inside = y.abs() < o.reach;
  const auto at = torch::where(inside, y, torch::zeros_like(y));
  const auto p = piece_of(at, parameters, o, /*by_y=*/true);
  const auto above = at - p.y;
  const auto bend = p.left + p.right - 2 * p.mean;
  // a u² + b u + c = 0, of whose roots one is in [0, 1].
  const auto a = p.height * (p.mean - p.left) + above * bend;
  const auto b = p.height * p.left - above * bend;
  const auto c = -p.mean * above;
  const auto root = torch::sqrt((b.square() - 4 * a * c).clamp_min(0));
  const auto u = 2 * c / (-b - root);
  return inside_only(y, inside, {p.x + u * p.width, -log_slope_at(p, u)});
}

}  // namespace propagator::nn
