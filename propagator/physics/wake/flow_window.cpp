#include "propagator/physics/wake/flow_window.h"

#include <limits>

namespace propagator::physics {
namespace {

// The quintic on [0, 1] that has f, f′, f″ at 0 and 1: its six weights (in that
// order, first of 0) at s, and their derivatives. (N) → (6, N, 1)
torch::Tensor quintic(const torch::Tensor& s) {
  const auto s2 = s * s, s3 = s2 * s, s4 = s3 * s, s5 = s4 * s;
  return torch::stack(
             {1 - 10 * s3 + 15 * s4 - 6 * s5, s - 6 * s3 + 8 * s4 - 3 * s5,
              (s2 - 3 * s3 + 3 * s4 - s5) / 2, 10 * s3 - 15 * s4 + 6 * s5,
              -4 * s3 + 7 * s4 - 3 * s5, (s3 - 2 * s4 + s5) / 2})
      .unsqueeze(2);
}

torch::Tensor quintic_slope(const torch::Tensor& s) {
  const auto s2 = s * s, s3 = s2 * s, s4 = s3 * s;
  return torch::stack(
             {-30 * s2 + 60 * s3 - 30 * s4, 1 - 18 * s2 + 32 * s3 - 15 * s4,
              (2 * s - 9 * s2 + 12 * s3 - 5 * s4) / 2,
              30 * s2 - 60 * s3 + 30 * s4, -12 * s2 + 28 * s3 - 15 * s4,
              (3 * s2 - 8 * s3 + 5 * s4) / 2})
      .unsqueeze(2);
}

// Fourth-order differences along `dim`; two points are lost at either end.
torch::Tensor first_difference(const torch::Tensor& f, int64_t dim, double h) {
  const int64_t n = f.size(dim) - 4;
  return (8 * (f.narrow(dim, 3, n) - f.narrow(dim, 1, n)) -
          (f.narrow(dim, 4, n) - f.narrow(dim, 0, n))) /
         (12 * h);
}

torch::Tensor second_difference(const torch::Tensor& f, int64_t dim, double h) {
  const int64_t n = f.size(dim) - 4;
  return (16 * (f.narrow(dim, 3, n) + f.narrow(dim, 1, n)) -
          (f.narrow(dim, 4, n) + f.narrow(dim, 0, n)) -
          30 * f.narrow(dim, 2, n)) /
         (12 * h * h);
}

torch::Tensor inside(const torch::Tensor& f, int64_t dim) {
  return f.narrow(dim, 2, f.size(dim) - 4);
}

double rms(const torch::Tensor& f) {
  return f.square().mean().sqrt().item<double>();
}

double largest(const torch::Tensor& f) { return f.abs().max().item<double>(); }

}  // namespace

FlowWindow::FlowWindow(const LogPolarGrid& grid, const torch::Tensor& x,
                       const torch::Tensor& y)
    : grid_(grid) {
  radius_ = torch::hypot(x, y);
  cos_ = x / radius_;
  sin_ = y / radius_;
  const auto rings = torch::log(2 * radius_) / grid.spacing();
  const auto below =
      rings.floor().clamp(0, static_cast<double>(grid.rings() - 2));
  below_ = below.to(torch::kInt64);
  weights_ = quintic(rings - below);
  slopes_ = quintic_slope(rings - below);
  const auto phase = torch::outer(torch::atan2(y, x), grid.wave_number());
  waves_ = torch::stack({torch::cos(phase), torch::sin(phase)});
}

FlowWindow::AtPoints FlowWindow::interpolate(const torch::Tensor& f,
                                             bool with_slope) const {
  const double h = grid_.spacing();
  const torch::Tensor knots[] = {f, grid_.d_xi(f) * h,
                                 grid_.d_xi2(f) * (h * h)};
  AtPoints at;
  for (int64_t i = 0; i < 6; ++i) {
    const auto knot = knots[i % 3].index_select(1, i < 3 ? below_ : below_ + 1);
    const auto add = [&](torch::Tensor& sum, const torch::Tensor& weights) {
      if (!sum.defined()) sum = torch::zeros_like(knot);
      sum.addcmul_(knot, weights[i]);
    };
    add(at.value, weights_);
    if (with_slope) add(at.slope, slopes_);
  }
  if (with_slope) at.slope.div_(h);
  return at;
}

FlowFields FlowWindow::sample(const torch::Tensor& stream,
                              const torch::Tensor& head) const {
  const auto sum = [&](const torch::Tensor& modes) {
    return (modes * waves_).sum(torch::IntArrayRef{0, 2});
  };
  const auto psi = interpolate(stream, true);
  const auto outwards = sum(grid_.d_theta(psi.value)) / radius_;
  const auto around = -sum(psi.slope) / radius_;
  FlowFields at{
      outwards * cos_ - around * sin_, outwards * sin_ + around * cos_, {}};
  at.p =
      sum(interpolate(head, false).value) - (at.u.square() + at.v.square()) / 2;
  return at;
}

FlowResidual flow_residual(const FlowFields& fields, double dt, double dy,
                           double dx, double viscosity) {
  const auto &u = fields.u, &v = fields.v, &p = fields.p;
  const auto x = [&](const torch::Tensor& f) {
    return first_difference(inside(f, 1), 2, dx);
  };
  const auto y = [&](const torch::Tensor& f) {
    return first_difference(inside(f, 2), 1, dy);
  };
  const auto here = [](const torch::Tensor& f) {
    return inside(inside(f, 1), 2);
  };
  const auto divergence = x(u) + y(v);
  FlowResidual residual{.divergence_rms = rms(divergence),
                        .divergence_max = largest(divergence)};
  if (u.size(0) < 5) {
    residual.momentum_rms = residual.momentum_max =
        std::numeric_limits<double>::quiet_NaN();
    return residual;
  }
  const auto momentum = [&](const torch::Tensor& w,
                            const torch::Tensor& force) {
    const auto laplacian = second_difference(inside(w, 1), 2, dx) +
                           second_difference(inside(w, 2), 1, dy);
    const auto rest =
        here(u) * x(w) + here(v) * y(w) + force - viscosity * laplacian;
    return first_difference(here(w), 0, dt) + inside(rest, 0);
  };
  const auto both = torch::stack({momentum(u, x(p)), momentum(v, y(p))});
  residual.momentum_rms = rms(both);
  residual.momentum_max = largest(both);
  return residual;
}

}  // namespace propagator::physics
