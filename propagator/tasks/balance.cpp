#include "propagator/tasks/balance.h"

#include <torch/autograd.h>
#include <torch/utils.h>

#include "propagator/core/random.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// Random signs for an estimate of a kernel's diagonal.
constexpr int64_t kProbes = 4;

double squared_gradient(const Tensor& scalar,
                        const std::vector<Tensor>& parameters,
                        bool keep_graph) {
  if (!scalar.requires_grad()) return 0;
  double sum = 0;
  for (const auto& gradient :
       torch::autograd::grad({scalar}, parameters, {}, keep_graph, false,
                             /*allow_unused=*/true)) {
    if (gradient.defined()) {
      sum += gradient.to(torch::kFloat64).square().sum().item<double>();
    }
  }
  return sum;
}

// The mean of |∂r/∂θ|² over points: E |∂(v·r)/∂θ|² / n for random signs v.
double kernel_diagonal(const std::vector<Tensor>& residuals,
                       const std::vector<Tensor>& parameters,
                       const RandomStream& stream) {
  double sum = 0;
  int64_t draw = 0;
  for (const auto& residual : residuals) {
    for (int64_t probe = 0; probe < kProbes; ++probe) {
      auto signs = torch::empty({residual.numel()}, torch::kFloat64);
      double* sign = signs.data_ptr<double>();
      for (int64_t n = 0; n < residual.numel(); ++n) {
        sign[n] = stream.uniform(draw, n) < 0.5 ? -1 : 1;
      }
      ++draw;
      const auto probed = (residual.flatten() *
                           signs.to(residual.device(), residual.scalar_type()))
                              .sum();
      sum += squared_gradient(probed, parameters, true) /
             static_cast<double>(kProbes * residual.numel());
    }
  }
  return sum;
}

}  // namespace

Tensor mean_squares(const std::vector<std::vector<Tensor>>& terms) {
  // All squares at once: on a GPU there is a call less for each of them there,
  // and three on the way back. Their sums are double: rounded to float32, a
  // loss hides the small steps by which L-BFGS leaves a plateau.
  std::vector<Tensor> residuals;
  std::vector<int64_t> sizes;
  for (const auto& term : terms) {
    for (const auto& residual : term) {
      residuals.push_back(residual.flatten());
      sizes.push_back(residual.numel());
    }
  }
  const auto squares = torch::cat(residuals)
                           .to(torch::kFloat64)
                           .square()
                           .split_with_sizes(sizes);
  auto next = squares.begin();
  std::vector<Tensor> sums;
  for (const auto& term : terms) {
    auto sum = (next++)->mean();
    for (size_t n = 1; n < term.size(); ++n) sum = sum + (next++)->mean();
    sums.push_back(sum);
  }
  return torch::stack(sums);
}

std::vector<double> balanced_weights(Balance balance,
                                     const std::vector<TermResiduals>& terms,
                                     const std::vector<Tensor>& parameters,
                                     double first, int64_t seed, int64_t step) {
  const torch::AutoGradMode on(true);
  std::vector<double> sizes;
  for (const auto& term : terms) {
    const auto residuals = term();
    const RandomStream stream(seed,
                              fmt::format("balance/{}/{}", sizes.size(), step));
    sizes.push_back(balance == Balance::kNtk
                        ? kernel_diagonal(residuals, parameters, stream)
                        : std::sqrt(squared_gradient(mean_squares({residuals}),
                                                     parameters, false)));
  }
  std::vector<double> weights;
  for (const double size : sizes) {
    const double ratio = sizes.front() / size;
    weights.push_back(first *
                      (ratio < kLargestBalanced ? ratio : kLargestBalanced));
  }
  return weights;
}

}  // namespace propagator::tasks
