#include "propagator/physics/wake/numerov.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace propagator::physics {
namespace {

constexpr int64_t kModesAtOnce = 32;
constexpr int64_t kWallRings = 4;

struct Factors {
  const double *lower, *inverse, *upper;
};

// One field's right-hand sides y (n, K), at modes [begin, begin + count).
void sweep_modes(const Factors& f, int64_t n, int64_t modes, int64_t begin,
                 int64_t count, double* y) {
  for (int64_t j = 1; j < n; ++j) {
    const int64_t at = j * modes + begin;
    for (int64_t k = at; k < at + count; ++k) {
      y[k] -= f.lower[k] * y[k - modes];
    }
  }
  const int64_t last = (n - 1) * modes + begin;
  for (int64_t k = last; k < last + count; ++k) y[k] *= f.inverse[k];
  for (int64_t j = n - 2; j >= 0; --j) {
    const int64_t at = j * modes + begin;
    for (int64_t k = at; k < at + count; ++k) {
      y[k] = (y[k] - f.upper[k] * y[k + modes]) * f.inverse[k];
    }
  }
}

}  // namespace

NumerovSolver::NumerovSolver(double spacing, const torch::Tensor& q,
                             const torch::Tensor& kappa,
                             std::optional<Method> method)
    : spacing_(spacing),
      q_(q),
      wall_weights_(torch::tensor({{97.0, 114.0, -39.0, 8.0}}, q.options()) *
                    (spacing / 360)) {
  factor(kappa);
  const auto usual = q.is_cpu() ? Method::kSweep : Method::kProduct;
  if (method.value_or(usual) == Method::kSweep) return;
  const int64_t n = q.size(0);
  auto columns = torch::eye(n, torch::kFloat64)
                     .unsqueeze(2)
                     .repeat({1, 1, q.size(1)});  // (n columns, n, K)
  sweep(columns);
  matrices_ = columns.permute({2, 1, 0}).contiguous().to(q.device());
}

void NumerovSolver::factor(const torch::Tensor& kappa) {
  const auto q = q_.to(torch::kCPU);
  const int64_t n = q.size(0), modes = q.size(1);
  const double h = spacing_, h2 = h * h;
  auto side = 1 - q * (h2 / 12);  // of the matrix, beside the diagonal
  auto lower = side.roll(1, 0), upper = side.roll(-1, 0);
  auto diagonal = -2 - q * (10 * h2 / 12);
  diagonal[0].fill_(1);
  upper[0].fill_(0);
  lower[n - 1].copy_(1 - q[n - 2] * (h2 / 6));
  diagonal[n - 1].copy_(-(1 + kappa.to(torch::kCPU) * h + q[n - 1] * (h2 / 3)));
  inverse_ = diagonal.reciprocal();
  for (int64_t j = 1; j < n; ++j) {
    lower[j].mul_(inverse_[j - 1]);
    inverse_[j].copy_((diagonal[j] - lower[j] * upper[j - 1]).reciprocal());
  }
  lower_ = lower.contiguous().view({n, modes});
  upper_ = upper.contiguous().view({n, modes});
}

void NumerovSolver::sweep(torch::Tensor& y) const {
  const int64_t fields = y.size(0), n = y.size(1), modes = y.size(2);
  const int64_t blocks = (modes + kModesAtOnce - 1) / kModesAtOnce;
  const Factors factors{lower_.data_ptr<double>(), inverse_.data_ptr<double>(),
                        upper_.data_ptr<double>()};
  auto* values = y.data_ptr<double>();
  at::parallel_for(0, fields * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * kModesAtOnce;
      sweep_modes(factors, n, modes, first,
                  std::min(kModesAtOnce, modes - first),
                  values + i / blocks * n * modes);
    }
  });
}

torch::Tensor NumerovSolver::right_hand_side(const torch::Tensor& g,
                                             const torch::Tensor& wall,
                                             const torch::Tensor& outer) const {
  const double h2 = spacing_ * spacing_;
  const int64_t n = g.size(1);
  auto y = torch::empty(g.sizes(), g.options());
  y.select(1, 0).copy_(wall);
  auto inside = y.narrow(1, 1, n - 2);
  torch::add_out(inside, g.narrow(1, 0, n - 2), g.narrow(1, 2, n - 2));
  inside.add_(g.narrow(1, 1, n - 2), 10).mul_(h2 / 12);
  y.select(1, n - 1).copy_(outer * -spacing_ + g.select(1, n - 1) * (h2 / 3) +
                           g.select(1, n - 2) * (h2 / 6));
  return y;
}

torch::Tensor NumerovSolver::solve(const torch::Tensor& g,
                                   const torch::Tensor& wall,
                                   const torch::Tensor& outer) const {
  auto y = right_hand_side(g, wall, outer);
  if (matrices_.defined()) {
    return torch::bmm(matrices_, y.permute({2, 1, 0}))
        .permute({2, 1, 0})
        .contiguous();
  }
  sweep(y);
  return y;
}

torch::Tensor NumerovSolver::wall_slope(const torch::Tensor& y,
                                        const torch::Tensor& g) const {
  const auto curvature =
      torch::addcmul(g.narrow(1, 0, kWallRings), q_.narrow(0, 0, kWallRings),
                     y.narrow(1, 0, kWallRings));
  return (y.select(1, 1) - y.select(1, 0)) / spacing_ -
         torch::matmul(wall_weights_, curvature).squeeze(1);
}

}  // namespace propagator::physics
