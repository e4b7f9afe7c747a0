#include "propagator/nn/kriging.h"

#include <ATen/Parallel.h>
#include <torch/optim/lbfgs.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "propagator/core/error.h"
#include "propagator/core/random.h"

namespace propagator::nn {
namespace {

using torch::Tensor;

// Of lengths, over axes on [-1, 1], and of ρ. Below the last of them rounding
// spoils a Cholesky factor of some hundred readings.
constexpr double kShortest = 0.01, kLongest = 100;
constexpr double kLeastNoise = 1e-12, kMostNoise = 100;
// Of σ², where all readings are the same.
constexpr double kLeastAmplitude = 1e-24;

// Starts are tried with so many readings, and so many evaluations each. With
// fewer a field that changes fast, in time above all, looks like noise.
constexpr int64_t kTried = 700;
constexpr int64_t kTries = 30;
struct Start {
  double length, noise;
};
constexpr std::array kStarts = {Start{0.1, 1e-3}, Start{0.3, 1e-6},
                                Start{0.3, 0.1}, Start{1.5, 1e-6},
                                Start{1.5, 0.1}};

// Below so many readings threads cost more than they give.
constexpr int64_t kForThreads = 400;

// One thread for few readings, while it lives.
class ThreadsFor {
 public:
  explicit ThreadsFor(int64_t readings) : before_(at::get_num_threads()) {
    if (readings < kForThreads) at::set_num_threads(1);
  }
  ~ThreadsFor() { at::set_num_threads(before_); }
  ThreadsFor(const ThreadsFor&) = delete;
  ThreadsFor& operator=(const ThreadsFor&) = delete;

 private:
  int before_;
};

struct Factored {
  Tensor squares;  // (n, n), s
  Tensor factor;   // (n, n), lower
  double noise;
};

// Rounding may leave no Cholesky factor with little noise: then with more.
Factored factored(Radial kernel, const Tensor& places,
                  const KrigingParameters& at) {
  const auto scaled = places / at.lengths;
  const auto squares = squared_distances(scaled, scaled);
  const auto c = radial_of(kernel, squares);
  for (double noise = at.noise; noise < 10 * kMostNoise; noise *= 10) {
    auto all = c.clone();
    all.diagonal().add_(noise);
    const auto [factor, info] = torch::linalg_cholesky_ex(all);
    if (info.item<int64_t>() == 0) return {squares, factor, noise};
  }
  throw NumericalError(
      "[kriging] the covariance of the readings has no Cholesky factor",
      "are readings and places finite?");
}

double amplitude_of(const Tensor& y, const Tensor& alpha) {
  return std::max(kLeastAmplitude, torch::dot(y, alpha).item<double>() /
                                       static_cast<double>(y.size(0)));
}

Tensor solved(const Tensor& factor, const Tensor& y) {
  return torch::cholesky_solve(y.unsqueeze(1), factor).squeeze(1);
}

// Logarithms between bounds, as tanh of numbers without.
struct Bounds {
  Tensor middle, half;  // (D + 1)

  explicit Bounds(int64_t axes) {
    auto low = torch::full({axes + 1}, std::log(kShortest), torch::kFloat64);
    auto high = torch::full({axes + 1}, std::log(kLongest), torch::kFloat64);
    low[axes] = std::log(kLeastNoise);
    high[axes] = std::log(kMostNoise);
    middle = (low + high) / 2;
    half = (high - low) / 2;
  }
  KrigingParameters at(const Tensor& z) const {
    const auto values = (middle + half * z.tanh()).exp();
    const int64_t axes = values.size(0) - 1;
    return {values.slice(0, 0, axes), values[axes].item<double>()};
  }
  Tensor slope(const Tensor& z) const { return half * (1 - z.tanh().square()); }
  Tensor inverse(const Start& start) const {
    auto logs = torch::full_like(middle, std::log(start.length));
    logs[-1] = std::log(start.noise);
    return ((logs - middle) / half).atanh();
  }
};

struct Found {
  double value = -std::numeric_limits<double>::infinity();
  Tensor z;
};

Found climb(Radial kernel, const Tensor& places, const Tensor& y,
            const Tensor& start, int64_t evaluations,
            const std::function<void()>& evaluated) {
  const ThreadsFor threads(y.size(0));
  const Bounds bounds(places.size(1));
  Found best;
  auto z = start.clone().set_requires_grad(true);
  const auto loss_and_gradient = [&]() -> Tensor {
    const torch::NoGradGuard no_grad;
    const auto now = z.detach().clone();
    const auto found = kriging_likelihood(kernel, places, y, bounds.at(now));
    if (evaluated) evaluated();
    if (found.value > best.value) best = {found.value, now};
    const auto n = static_cast<double>(y.size(0));
    z.mutable_grad() = -found.gradient * bounds.slope(now) / n;
    return torch::full({}, -found.value / n, torch::kFloat64);
  };
  torch::optim::LBFGS search({z}, torch::optim::LBFGSOptions(1)
                                      .max_iter(evaluations)
                                      .max_eval(evaluations)
                                      .tolerance_grad(1e-6)
                                      .tolerance_change(1e-10)
                                      .history_size(10)
                                      .line_search_fn("strong_wolfe"));
  search.step(loss_and_gradient);
  return best;
}

}  // namespace

KrigingLikelihood kriging_likelihood(Radial kernel, const Tensor& places,
                                     const Tensor& y,
                                     const KrigingParameters& at) {
  const torch::NoGradGuard no_grad;
  const auto [squares, factor, noise] = factored(kernel, places, at);
  const auto n = static_cast<double>(y.size(0));
  const auto alpha = solved(factor, y);
  const double amplitude = amplitude_of(y, alpha);
  const double value =
      -0.5 * n * (1 + std::log(2 * std::numbers::pi * amplitude)) -
      factor.diagonal().log().sum().item<double>();
  const auto w =
      torch::outer(alpha, alpha) / amplitude - torch::cholesky_inverse(factor);
  // ∂s/∂log l = -2 (Δ/l)² along each axis.
  const auto g = w * radial_slope(kernel, squares);
  auto gradient = torch::empty({places.size(1) + 1}, torch::kFloat64);
  for (int64_t a = 0; a < places.size(1); ++a) {
    const auto x = (places.select(1, a) / at.lengths[a]);
    gradient[a] = -(g * (x.unsqueeze(1) - x).square()).sum();
  }
  gradient[-1] = 0.5 * noise * w.diagonal().sum();
  return {value, gradient};
}

int64_t most_evaluations(const KrigingSearch& search) {
  return std::ssize(kStarts) * kTries + search.evaluations;
}

KrigingParameters fit_kriging(Radial kernel, const Tensor& places,
                              const Tensor& y, const KrigingSearch& search,
                              const std::function<void()>& evaluated) {
  const int64_t all = y.size(0);
  const auto order = RandomStream(0, "kriging/some").permutation(all, 0);
  const auto some = [&](int64_t count) {
    std::vector<int64_t> rows(order.begin(),
                              order.begin() + std::min(count, all));
    return torch::tensor(rows, torch::kInt64);
  };
  const int64_t used = search.readings > 0 ? search.readings : all;
  const auto few = some(std::min(kTried, used)), many = some(used);
  const Bounds bounds(places.size(1));
  Found best;
  for (const auto& start : kStarts) {
    const auto found =
        climb(kernel, places.index_select(0, few), y.index_select(0, few),
              bounds.inverse(start), kTries, evaluated);
    if (found.value > best.value) best = found;
  }
  best = climb(kernel, places.index_select(0, many), y.index_select(0, many),
               best.z, search.evaluations, evaluated);
  return bounds.at(best.z);
}

KrigingSolution solve_kriging(Radial kernel, const Tensor& places,
                              const Tensor& y, const KrigingParameters& with) {
  const torch::NoGradGuard no_grad;
  const auto [squares, factor, noise] = factored(kernel, places, with);
  const auto alpha = solved(factor, y);
  const auto identity = torch::eye(y.size(0), torch::kFloat64);
  return {alpha,
          torch::linalg_solve_triangular(factor, identity, /*upper=*/false),
          amplitude_of(y, alpha), noise};
}

}  // namespace propagator::nn
