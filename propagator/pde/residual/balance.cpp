#include "propagator/pde/residual/balance.h"

#include <torch/utils.h>

#include <numeric>

#include "propagator/autodiff/parameter_gradients.h"
#include "propagator/core/random.h"

namespace propagator::pde {
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
       autodiff::parameter_gradients(scalar, parameters, keep_graph)) {
    sum += gradient.to(torch::kFloat64).square().sum().item<double>();
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

// Row k times squares, one after the other, is the sum of means of term k.
Tensor averages_over(const std::vector<std::vector<int64_t>>& sizes,
                     const torch::TensorOptions& options) {
  int64_t numbers = 0;
  for (const auto& term : sizes) {
    numbers = std::accumulate(term.begin(), term.end(), numbers);
  }
  const torch::NoGradGuard no_grad;
  auto averages = torch::zeros({std::ssize(sizes), numbers}, options);
  int64_t begin = 0;
  for (int64_t row = 0; row < std::ssize(sizes); ++row) {
    for (const int64_t size : sizes[static_cast<size_t>(row)]) {
      averages[row]
          .narrow(0, begin, size)
          .fill_(1.0 / static_cast<double>(size));
      begin += size;
    }
  }
  return averages;
}

}  // namespace

Tensor MeanSquares::operator()(const std::vector<std::vector<Tensor>>& terms) {
  std::vector<Tensor> residuals;
  Sizes sizes;
  for (const auto& term : terms) {
    auto& of_term = sizes.emplace_back();
    for (const auto& residual : term) {
      residuals.push_back(residual.flatten());
      of_term.push_back(residual.numel());
    }
  }
  // Sums are double: rounded to float32, a loss hides the small steps by which
  // L-BFGS leaves a plateau.
  const auto squares = torch::cat(residuals).to(torch::kFloat64).square();
  auto& averages = averages_[sizes];
  if (!averages.defined() || averages.device() != squares.device()) {
    averages = averages_over(sizes, squares.options());
  }
  return averages.mv(squares);
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
                        : std::sqrt(squared_gradient(MeanSquares()({residuals}),
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

}  // namespace propagator::pde
