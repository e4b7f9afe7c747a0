#include "propagator/train/levenberg_marquardt.h"

#include <ATen/ops/cholesky_solve.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/train/lbfgs_history.h"

namespace propagator::train {
namespace {

using torch::Tensor;

// Of the largest diagonal entry of JᵀJ: less is lost in rounding.
constexpr double kLeastDamping = 1e-15;

FlatParameters& checked(FlatParameters& parameters,
                        const LevenbergMarquardtOptions& options) {
  const int64_t count = parameters.values().numel();
  if (count <= options.max_parameters) return parameters;
  throw ConfigError(
      "optimizer.kind",
      fmt::format("expected at most {} parameters for Levenberg-Marquardt "
                  "(levenberg_marquardt.max_parameters), got {}",
                  options.max_parameters, count),
      "set optimizer.kind=lbfgs, or choose a smaller network, as "
      "model.name=pinn with model.width=20");
}

double number(const Tensor& scalar) { return scalar.item<double>(); }

// By what λ is multiplied after a step (Nielsen's rule): a third at least, and
// 2 where the step was worth nothing of what was foretold, or rounding has left
// nothing that could be.
double change_of_damping(double lowered, double foretold) {
  const double gain = foretold > 0 ? lowered / foretold : 0;
  return std::max(1.0 / 3, 1 - std::pow(2 * gain - 1, 3));
}

// A Aᵀ of A (n, m), of which strips of rows are computed from the diagonal on
// and mirrored: little more than half of the products.
Tensor gram(const Tensor& a) {
  constexpr int64_t kStrips = 8;
  const int64_t n = a.size(0), width = (n + kStrips - 1) / kStrips;
  auto product = torch::empty({n, n}, a.options());
  for (int64_t from = 0; from < n; from += width) {
    const int64_t rows = std::min(width, n - from);
    const auto strip =
        a.narrow(0, from, rows).mm(a.narrow(0, from, n - from).t());
    product.narrow(0, from, rows).narrow(1, from, n - from).copy_(strip);
    product.narrow(0, from, n - from).narrow(1, from, rows).copy_(strip.t());
  }
  return product;
}

}  // namespace

void LevenbergMarquardtOptions::describe(config::Schema& s) {
  s.field("iterations", iterations,
          {.help = "Jacobians that Levenberg-Marquardt takes in one training "
                   "step, on the same points",
           .min = 1,
           .later = true});
  s.field("tries", tries,
          {.help = "dampings that Levenberg-Marquardt tries with a Jacobian "
                   "until one lowers the loss",
           .min = 1,
           .later = true});
  s.field("max_parameters", max_parameters,
          {.help = "largest number of parameters that Levenberg-Marquardt is "
                   "tried with; its matrices have the square of that",
           .min = 1,
           .max = 100000,
           .later = true});
  s.field("damping", damping,
          {.help = "first damping of Levenberg-Marquardt, as a share of the "
                   "largest diagonal entry of its normal equations",
           .min = 1e-15,
           .max = 1e6,
           .later = true});
}

DampedLeastSquares::DampedLeastSquares(const Tensor& jacobian,
                                       const Tensor& residuals)
    : jacobian_(jacobian.to(torch::kFloat64)),
      residuals_(residuals.to(torch::kFloat64)),
      gradient_(jacobian_.mv(residuals_)),
      by_residuals_(jacobian_.size(1) < jacobian_.size(0)) {
  product_ = gram(by_residuals_ ? jacobian_.t() : jacobian_);
}

double DampedLeastSquares::largest_diagonal() const {
  return number(by_residuals_ ? jacobian_.square().sum(1).max()
                              : product_.diagonal().max());
}

double DampedLeastSquares::foretold(const Tensor& delta, double damping) const {
  return number(delta.dot(damping * delta - gradient_));
}

Tensor DampedLeastSquares::solve(double damping) const {
  auto damped = product_.clone();
  damped.diagonal().add_(damping);
  const auto [factor, info] = at::linalg_cholesky_ex(damped);
  if (info.item<int64_t>() != 0) return {};
  const auto solved = [&, factor = factor](const Tensor& right) {
    return at::cholesky_solve(right.unsqueeze(1), factor).squeeze(1);
  };
  if (by_residuals_) {
    // δ = −Jᵀ w with (J Jᵀ + λ) w = r.
    auto w = solved(residuals_);
    w = w +
        solved(residuals_ - jacobian_.t().mv(jacobian_.mv(w)) - damping * w);
    return -jacobian_.mv(w);
  }
  auto delta = -solved(gradient_);
  const auto left =
      jacobian_.mv(residuals_ + jacobian_.t().mv(delta)) + damping * delta;
  return delta - solved(left);
}

LevenbergMarquardt::LevenbergMarquardt(const LevenbergMarquardtOptions& options,
                                       FlatParameters& parameters)
    : options_(options), parameters_(checked(parameters, options)) {}

DescentOutcome LevenbergMarquardt::step(const Residuals& residuals) {
  const int64_t iterations = iterations_, evaluations = evaluations_;
  // What those cases asked for in vain says nothing of these.
  if (failures_.count() > 0 && failures_.are_on_new_cases()) {
    damping_ = before_failure_;
  }
  while (stop_ == DescentStop::kNone &&
         iterations_ - iterations < options_.iterations) {
    ++evaluations_;
    const auto here = residuals(true);
    const torch::NoGradGuard no_grad;
    loss_ = number(here.residuals.to(torch::kFloat64).square().sum());
    if (!std::isfinite(loss_) ||
        !torch::isfinite(here.jacobian).all().item<bool>()) {
      stop_ = DescentStop::kNotFinite;
    } else if (!iterate(residuals, here)) {
      break;
    }
  }
  if (stop_ == DescentStop::kNone) {
    failures_.note(iterations_ == iterations);
    if (failures_.are_too_many()) stop_ = DescentStop::kLineSearch;
  }
  return {loss_, norm_, iterations_ - iterations, evaluations_ - evaluations,
          stop_};
}

bool LevenbergMarquardt::iterate(const Residuals& residuals,
                                 const LeastSquares& here) {
  const DampedLeastSquares problem(here.jacobian, here.residuals);
  norm_ = 2 * number(problem.gradient().norm());
  if (norm_ == 0) {
    stop_ = DescentStop::kGradient;
    return false;
  }
  const double largest = problem.largest_diagonal();
  const double least = kLeastDamping * largest;
  damping_ =
      std::max(damping_ > 0 ? damping_ : options_.damping * largest, least);
  auto& values = parameters_.values();
  const auto origin = values.clone();
  const auto look = [&] {
    ++evaluations_;
    try {
      return number(
          residuals(false).residuals.to(torch::kFloat64).square().sum());
    } catch (...) {
      values.copy_(origin);
      throw;
    }
  };
  const double first = damping_;
  double growth = 2;
  for (int64_t n = 0; n < options_.tries; ++n) {
    const auto delta = problem.solve(damping_);
    if (delta.defined()) {
      torch::add_out(values, origin, delta.to(values.scalar_type()));
      const double loss = look();
      if (loss < loss_) {
        damping_ *=
            change_of_damping(loss_ - loss, problem.foretold(delta, damping_));
        loss_ = loss;
        ++iterations_;
        return true;
      }
    }
    damping_ *= growth;
    growth *= 2;
  }
  values.copy_(origin);
  if (failures_.count() == 0) before_failure_ = first;
  return false;
}

std::map<std::string, Tensor> LevenbergMarquardt::state() const {
  return {
      {"counters", torch::tensor({iterations_, evaluations_, failures_.count(),
                                  static_cast<int64_t>(stop_)},
                                 torch::kInt64)},
      {"last", torch::tensor({loss_, norm_, damping_}, torch::kFloat64)}};
}

void LevenbergMarquardt::restore(const std::map<std::string, Tensor>& state) {
  const auto counters = state_entry(state, "counters", torch::kInt64, {4});
  const auto last = state_entry(state, "last", torch::kFloat64, {3});
  const int64_t* count = counters.data_ptr<int64_t>();
  const double* numbers = last.data_ptr<double>();
  const auto stop = static_cast<DescentStop>(count[3]);
  if (count[0] < 0 || count[1] < 0 || count[2] < 0 ||
      config::name_of(stop) == "?" || !(numbers[2] >= 0)) {
    throw DataError(fmt::format(
        "[levenberg_marquardt] expected counts, a reason to stop and a damping "
        "of 0 or more, got {}, {}, {}, {} and {}",
        count[0], count[1], count[2], count[3], numbers[2]));
  }
  iterations_ = count[0], evaluations_ = count[1], failures_.recall(count[2]);
  stop_ = stop;
  // A checkpoint of before does not have it.
  before_failure_ =
      state.contains("before_failure")
          ? state_entry(state, "before_failure", torch::kFloat64, {1})
                .item<double>()
          : numbers[2];
  loss_ = numbers[0], norm_ = numbers[1], damping_ = numbers[2];
}

}  // namespace propagator::train
