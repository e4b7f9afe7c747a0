#include "propagator/train/broyden.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/train/lbfgs_history.h"

namespace propagator::train {
namespace {

FlatParameters& checked(FlatParameters& parameters,
                        const BroydenOptions& options) {
  const int64_t count = parameters.values().numel();
  if (count <= options.max_parameters) return parameters;
  throw ConfigError(
      "optimizer.kind",
      fmt::format("expected at most {} parameters for Broyden's method "
                  "(broyden.max_parameters), got {}: its matrix would take "
                  "{:.1f} GB",
                  options.max_parameters, count,
                  8e-9 * static_cast<double>(count * count)),
      "set optimizer.kind=lbfgs, or choose a smaller network, as "
      "model.name=pinn with model.width=20");
}

}  // namespace

void BroydenOptions::describe(config::Schema& s) {
  s.field("iterations", iterations,
          {.help = "iterations of Broyden's method in one training step",
           .min = 1,
           .later = true});
  s.field("max_parameters", max_parameters,
          {.help = "largest number of parameters that Broyden's method is "
                   "tried with; its matrix has the square of that",
           .min = 1,
           .max = 100000,
           .later = true});
  s.field("tolerance_gradient", tolerance_gradient,
          {.help = "Broyden's method stops where no component of the gradient "
                   "is larger",
           .min = 0,
           .later = true});
}

Broyden::Broyden(const BroydenOptions& options, FlatParameters& parameters)
    : options_(options),
      line_(checked(parameters, options), "broyden"),
      hessian_(parameters.values()) {}

DescentOutcome Broyden::step(const LineLoss::Closure& closure) {
  const int64_t iterations = iterations_, evaluations = line_.evaluations();
  const auto done = [&] { return iterations_ - iterations; };
  if (stop_ == DescentStop::kNone) {
    if (!line_.start(closure)) {
      stop_ = DescentStop::kNotFinite;
    } else if (line_.now().largest <= options_.tolerance_gradient) {
      stop_ = DescentStop::kGradient;
    }
  }
  if (stop_ == DescentStop::kNone) {
    prepare();
    while (done() < options_.iterations && iterate(closure)) {
      if (line_.now().largest > options_.tolerance_gradient) continue;
      stop_ = DescentStop::kGradient;
      break;
    }
    failures_.note(done() == 0);
    if (failures_.are_too_many() && stop_ == DescentStop::kNone) {
      stop_ = line_.saw_finite() ? DescentStop::kLineSearch
                                 : DescentStop::kNotFinite;
    }
  }
  return {line_.now().loss, line_.now().norm, done(),
          line_.evaluations() - evaluations, stop_};
}

void Broyden::prepare() {
  // After a chunk that came to nothing H may be wrong, or its points were: on
  // others it is tried once more.
  if (failures_.count() > (failures_.are_on_new_cases() ? 1 : 0)) {
    hessian_.reset();
  }
  if (hessian_.mend()) return;
  ++lost_;
  log::info(
      "broyden: the matrix was not positive definite after {} iterations, and "
      "begins anew with the steepest descent ({} so far)",
      iterations_, lost_);
}

bool Broyden::iterate(const LineLoss::Closure& closure) {
  line_.set_origin();
  double slope = hessian_.direction(line_.gradient(), line_.direction());
  if (!(slope < 0) && !hessian_.is_identity()) {
    hessian_.reset();
    slope = hessian_.direction(line_.gradient(), line_.direction());
  }
  if (!(slope < 0)) {
    stop_ = std::isfinite(slope) ? DescentStop::kNotDescent
                                 : DescentStop::kTooLarge;
    return false;
  }
  const double first_step =
      hessian_.is_identity() ? std::min(1.0, 1 / line_.now().sum) : 1;
  auto made = line_.advance(closure, slope, first_step);
  if (!made && line_.saw_finite() && line_.finds_noise(closure)) {
    made = line_.advance(closure, slope, first_step);
  }
  if (!made) return false;
  hessian_.update(made->step, line_.moved(), line_.bent(),
                  line_.gradient() + line_.bent());
  ++iterations_;
  return true;
}

std::map<std::string, torch::Tensor> Broyden::state() const {
  return {{"matrix", hessian_.matrix()},
          {"counters",
           torch::tensor({iterations_, line_.evaluations(), failures_.count(),
                          static_cast<int64_t>(stop_),
                          static_cast<int64_t>(hessian_.is_identity())},
                         torch::kInt64)},
          {"lost", torch::tensor({lost_}, torch::kInt64)},
          {"last", torch::tensor(
                       {line_.now().loss, line_.now().norm, line_.root_noise()},
                       torch::kFloat64)}};
}

void Broyden::restore(const std::map<std::string, torch::Tensor>& state) {
  const int64_t n = line_.origin().numel();
  const auto matrix = state_entry(state, "matrix", torch::kFloat64, {n, n});
  const auto counters = state_entry(state, "counters", torch::kInt64, {5});
  const auto last = state_entry(state, "last", torch::kFloat64, {3});
  const int64_t* count = counters.data_ptr<int64_t>();
  const auto stop = static_cast<DescentStop>(count[3]);
  if (count[0] < 0 || count[1] < 0 || count[2] < 0 ||
      config::name_of(stop) == "?" ||
      !torch::isfinite(matrix).all().item<bool>()) {
    throw DataError(fmt::format(
        "[broyden] expected counts, a reason to stop and a matrix of finite "
        "numbers, got {}, {}, {} and {}",
        count[0], count[1], count[2], count[3]));
  }
  hessian_.restore(matrix, count[4] != 0);
  iterations_ = count[0], failures_.recall(count[2]);
  stop_ = stop;
  // A checkpoint of before does not count it.
  lost_ = state.contains("lost")
              ? state_entry(state, "lost", torch::kInt64, {1}).item<int64_t>()
              : 0;
  const double* number = last.data_ptr<double>();
  line_.recall(number[0], number[1], count[1]);
  line_.recall_noise(number[2]);
}

}  // namespace propagator::train
