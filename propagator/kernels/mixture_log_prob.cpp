#include "propagator/kernels/mixture_log_prob.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "propagator/kernels/exp.h"
#include "propagator/kernels/list_function.h"

namespace propagator::kernels {
namespace {

using torch::Tensor;
using Tensors = torch::autograd::variable_list;

const double kHalfLog2Pi = 0.5 * std::log(2 * std::numbers::pi);

// The mixtures of some rows, one row at a time.
template <class Real>
class Mixtures {
 public:
  Mixtures(const Tensor& places, double most)
      : count_(places.numel()),
        most_(static_cast<Real>(most)),
        places_(places.data_ptr<Real>()),
        weight_(static_cast<size_t>(count_)),
        part_(weight_.size()),
        inverse_(weight_.size()),
        u_(weight_.size()),
        bend_(weight_.size()) {}

  // The log, and its slopes by the 3 K numbers and, behind them, by x.
  Real run(const Real* raw, Real x, Real* slopes) {
    const int64_t k = count_;
    const Real* width = raw + 2 * k;
    Real *u = u_.data(), *inverse = inverse_.data(), *bend = bend_.data();
    Real* part = part_.data();
    for (int64_t n = 0; n < k; ++n) {
      const Real e = exp_of_negative(-2 * std::fabs(width[n] / most_));
      bend[n] = std::copysign((1 - e) / (1 + e), width[n]);
      const Real log_width = most_ * bend[n];
      const Real size = exp_of_negative(-std::fabs(log_width));
      inverse[n] = log_width > 0 ? size : 1 / size;
      u[n] = (x - (raw[k + n] + places_[n])) * inverse[n];
      part[n] = raw[n] - Real(0.5) * u[n] * u[n] - log_width;
    }
    const Real weights = log_sum(raw, weight_.data());
    const Real all = log_sum(part, part);
    Real by_x = 0;
    for (int64_t n = 0; n < k; ++n) {
      const Real pull = part[n] * u[n] * inverse[n];
      slopes[n] = part[n] - weight_[static_cast<size_t>(n)];
      slopes[k + n] = pull;
      slopes[2 * k + n] = part[n] * (u[n] * u[n] - 1) * (1 - bend[n] * bend[n]);
      by_x -= pull;
    }
    slopes[3 * k] = by_x;
    return all - weights - static_cast<Real>(kHalfLog2Pi);
  }

 private:
  // log Σ exp a, and the shares of its terms.
  Real log_sum(const Real* a, Real* shares) const {
    Real most = a[0], sum = 0;
    for (int64_t n = 1; n < count_; ++n) most = std::max(most, a[n]);
    for (int64_t n = 0; n < count_; ++n) {
      shares[n] = exp_of_negative(a[n] - most);
    }
    for (int64_t n = 0; n < count_; ++n) sum += shares[n];
    for (int64_t n = 0; n < count_; ++n) shares[n] /= sum;
    return most + std::log(sum);
  }

  int64_t count_;
  Real most_;
  const Real* places_;
  std::vector<Real> weight_, part_, inverse_, u_, bend_;
};

template <class Real>
void fill(const Tensor& raw, const Tensor& x, const Tensor& places, double most,
          const Tensor& value, const Tensor& slopes) {
  const int64_t columns = raw.size(-1);
  at::parallel_for(0, x.numel(), 128, [&](int64_t from, int64_t to) {
    Mixtures<Real> mixtures(places, most);
    for (int64_t n = from; n < to; ++n) {
      value.data_ptr<Real>()[n] = mixtures.run(
          raw.data_ptr<Real>() + n * columns, x.data_ptr<Real>()[n],
          slopes.data_ptr<Real>() + n * (columns + 1));
    }
  });
}

}  // namespace

Tensor mixture_log_prob_reference(const Tensor& raw, const Tensor& x,
                                  const Tensor& places, double most) {
  const auto parts = raw.chunk(3, -1);
  const auto log_width = most * torch::tanh(parts[2] / most);
  const auto u =
      (x.unsqueeze(-1) - (parts[1] + places)) * torch::exp(-log_width);
  return torch::logsumexp(torch::log_softmax(parts[0], -1) - 0.5 * u.square() -
                              log_width - kHalfLog2Pi,
                          -1);
}

Tensor mixture_log_prob(const Tensor& raw, const Tensor& x,
                        const Tensor& places, double most) {
  const auto type = raw.scalar_type();
  if (!raw.is_cpu() || x.scalar_type() != type ||
      (type != torch::kFloat32 && type != torch::kFloat64)) {
    return mixture_log_prob_reference(raw, x, places, most);
  }
  const auto numbers = raw.detach().contiguous();
  const auto at = x.detach().contiguous();
  const auto value = torch::empty_like(at);
  auto shape = raw.sizes().vec();
  ++shape.back();
  const auto slopes = torch::empty(shape, numbers.options());
  (type == torch::kFloat32 ? fill<float> : fill<double>)(numbers, at,
                                                         places.contiguous(),
                                                         most, value, slopes);
  const Tensors inputs{raw, x};
  if (!torch::autograd::compute_requires_grad(inputs)) return value;
  ListFunction::record(
      {value}, inputs,
      [slopes](const Tensors& gradients, const ListFunction& node) -> Tensors {
        const int64_t columns = slopes.size(-1) - 1;
        const auto& d = gradients[0];
        return {slopes.narrow(-1, 0, columns) * d.unsqueeze(-1),
                node.wants(1) ? slopes.select(-1, columns) * d : Tensor()};
      });
  return value;
}

}  // namespace propagator::kernels
