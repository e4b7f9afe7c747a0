#include "propagator/train/inverse_hessian.h"

#include <ATen/ops/linalg_cholesky_ex.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "propagator/kernels/symmetric_update.h"

namespace propagator::train {
namespace {

using torch::Tensor;

// Of the same curvature along s and y, h b is 1 but for rounding.
constexpr double kLeast = 1e-14;

}  // namespace

BroydenScaling BroydenScaling::of(double b, double h, int64_t n) {
  const double a = std::max(h * b - 1, 0.0);
  const double rho = std::min(1.0, h * (1 - std::sqrt(a / (a + 1))));
  const double upper = std::min(1 / rho, (1 - b) / b);
  const double theta = a > kLeast ? std::max((rho - 1) / a, upper) : upper;
  const double sigma = std::max(1 + a * theta, kLeast);
  const double first = std::min(1.0, 1 / b);
  const double root =
      n > 1 ? std::pow(sigma, -1 / static_cast<double>(n - 1)) : 1;
  return {(1 - theta) / sigma, theta > 0 ? first * std::min(root, 1 / theta)
                                         : std::min(first * root, sigma)};
}

InverseHessian::InverseHessian(const Tensor& like) {
  const int64_t n = like.numel();
  matrix_ = torch::zeros({n, n}, like.options().dtype(torch::kFloat64));
  reset();
}

InverseHessian::Waiting InverseHessian::none() const {
  const auto zero = torch::zeros({2, matrix_.size(0)}, matrix_.options());
  return {1, zero, zero};
}

void InverseHessian::reset() {
  matrix_.zero_().diagonal().fill_(1);
  waiting_ = none();
  product_ = Tensor();
  is_identity_ = true;
}

void InverseHessian::restore(const Tensor& matrix, bool is_identity) {
  matrix_.copy_(matrix);
  waiting_ = none();
  product_ = Tensor();
  is_identity_ = is_identity;
}

Tensor InverseHessian::times(const Tensor& gradient) {
  if (is_identity_) return gradient;
  const auto& [s, p, q] = waiting_;
  auto product = kernels::symmetric_update(matrix_, s, p, q, gradient);
  waiting_ = none();
  return product;
}

Tensor InverseHessian::matrix() const {
  auto whole = matrix_.clone();
  const auto& [s, p, q] = waiting_;
  // By the same kernel: a restored one goes on to the same bits.
  kernels::symmetric_update(whole, s, p, q, p[0]);
  kernels::mirror_lower(whole);
  return whole;
}

bool InverseHessian::mend() {
  product_ = Tensor();
  if (is_identity_) return true;
  matrix_ = matrix();
  waiting_ = none();
  const auto [factor, info] = at::linalg_cholesky_ex(matrix_);
  const bool good = info.item<int64_t>() == 0 &&
                    torch::isfinite(factor.diagonal()).all().item<bool>();
  if (!good) reset();
  return good;
}

double InverseHessian::direction(const Tensor& gradient, Tensor& out) {
  const auto g = gradient.to(torch::kFloat64);
  if (!product_.defined()) product_ = times(g);
  out.copy_(-product_);
  slope_ = -torch::dot(g, product_).item<double>();
  return slope_;
}

void InverseHessian::update(double step, const Tensor& s_moved,
                            const Tensor& y_bent, const Tensor& gradient) {
  const auto s = s_moved.to(torch::kFloat64), y = y_bent.to(torch::kFloat64),
             g = gradient.to(torch::kFloat64);
  // One pass over H gives H y, the next direction, below, and the last update.
  const auto before = product_;
  product_ = times(g);
  auto hy = product_ - before;
  const auto read = torch::stack({torch::dot(y, s), torch::dot(y, hy),
                                  torch::dot(y, y), torch::dot(s, s)})
                        .cpu();
  const double* number = read.data_ptr<double>();
  const double ys = number[0], yy = number[2], ss = number[3];
  double yhy = number[1], sbs = -step * step * slope_;  // B s = -step g
  const double epsilon = std::numeric_limits<double>::epsilon();
  if (!(ys > epsilon * std::sqrt(yy * ss)) || !(yhy > 0) || !(sbs > 0)) return;
  if (is_identity_) {
    const double scale = ys / yy;
    matrix_.mul_(scale);
    product_ = product_ * scale;
    hy = hy * scale;
    yhy *= scale;
    sbs /= scale;
    is_identity_ = false;
  }
  const auto [phi, tau] = BroydenScaling::of(sbs / ys, yhy / ys, s.numel());
  // With U = (H y, s) the update is H / τ + U M Uᵀ.
  const auto u = torch::stack({hy, s});  // (2, n)
  const double cross = -phi / (ys * tau);
  const auto m = torch::tensor({(phi - 1) / (yhy * tau), cross, cross,
                                phi * yhy / (ys * ys * tau) + 1 / ys},
                               torch::kFloat64)
                     .view({2, 2})
                     .to(u.device());
  waiting_ = {1 / tau, u, m.mm(u)};
  product_ = product_ / tau + u.t().mv(waiting_.q.mv(g));
}

}  // namespace propagator::train
