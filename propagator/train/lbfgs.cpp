#include "propagator/train/lbfgs.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"

namespace propagator::train {
namespace {

// Of the steepest descent's usual first step, after a search that failed.
constexpr double kSmall = 0.01;

}  // namespace

void LbfgsOptions::describe(config::Schema& s) {
  // A checkpoint holds the pairs: their number is the run's.
  s.field("history", history,
          {.help = "pairs of a step and its change of the gradient that L-BFGS "
                   "keeps",
           .min = 1,
           .role = config::Role::kModel});
  s.field("iterations", iterations,
          {.help = "iterations of L-BFGS in one training step", .min = 1});
  s.field("evaluations", evaluations,
          {.help = "evaluations of loss and gradient after which a training "
                   "step of L-BFGS ends",
           .min = 1});
  s.field("lr", lr,
          {.help = "length of step that L-BFGS tries first along a direction",
           .min = 1e-12,
           .max = 1e3});
  s.field("tolerance_gradient", tolerance_gradient,
          {.help = "L-BFGS stops where no component of the gradient is larger",
           .min = 0});
  s.field("tolerance_change", tolerance_change,
          {.help = "L-BFGS stops where the loss, or the step, changes "
                   "relatively less",
           .min = 0});
}

Lbfgs::Lbfgs(const LbfgsOptions& options, FlatParameters& parameters)
    : options_(options),
      line_(parameters, "lbfgs"),
      history_(options.history, parameters.values()) {}

Lbfgs::Outcome Lbfgs::step(const Closure& closure) {
  return step(DeviceClosure(
      [&] { return torch::full({}, closure(), torch::kFloat64); }));
}

Lbfgs::Outcome Lbfgs::step(const DeviceClosure& closure) {
  const int64_t iterations = iterations_, evaluations = line_.evaluations();
  if (stop_ == DescentStop::kNone) {
    if (!line_.start(closure)) {
      stop_ = DescentStop::kNotFinite;
    } else if (line_.now().largest <= options_.tolerance_gradient) {
      stop_ = DescentStop::kGradient;
    }
  }
  while (stop_ == DescentStop::kNone &&
         iterations_ - iterations < options_.iterations &&
         line_.evaluations() - evaluations < options_.evaluations) {
    iterate(closure);
  }
  return {line_.now().loss, line_.now().norm, iterations_ - iterations,
          line_.evaluations() - evaluations, stop_};
}

double Lbfgs::steepest_step() const {
  return std::min(1.0, 1 / line_.now().sum) * options_.lr;
}

void Lbfgs::iterate(const DeviceClosure& closure) {
  line_.set_origin();
  const auto& gradient = line_.gradient();
  auto& direction = line_.direction();
  double slope = history_.direction(gradient, direction);
  bool steepest = history_.count() == 0;
  const auto turn_steepest = [&] {
    history_.forget();
    slope = history_.direction(gradient, direction);
    steepest = true;
  };
  if (!(slope < 0) && !steepest) turn_steepest();
  if (!(slope < 0)) {
    stop_ = std::isfinite(slope) ? DescentStop::kNotDescent
                                 : DescentStop::kTooLarge;
    return;
  }
  const double first_step = steepest ? steepest_step() : options_.lr;
  if (advance(closure, slope, first_step)) return;
  if (line_.saw_finite() && line_.finds_noise(closure) &&
      advance(closure, slope, first_step)) {
    return;
  }
  if (!steepest) {
    turn_steepest();
    if (advance(closure, slope, kSmall * steepest_step())) return;
  }
  stop_ =
      line_.saw_finite() ? DescentStop::kLineSearch : DescentStop::kNotFinite;
}

bool Lbfgs::advance(const DeviceClosure& closure, double slope,
                    double first_step) {
  const auto made = line_.advance(closure, slope, first_step);
  if (!made) return false;
  history_.offer(line_.moved(), line_.bent());
  ++iterations_;
  const auto& now = line_.now();
  // Losses may be equal by rounding; then the slope says how far they are.
  const double change =
      std::max(std::abs(now.loss - made->loss_before), -slope * made->step);
  const double scale =
      std::max(std::abs(now.loss), std::abs(made->loss_before));
  if (now.largest <= options_.tolerance_gradient) {
    stop_ = DescentStop::kGradient;
  } else if (change <= options_.tolerance_change * scale ||
             made->step * now.largest_direction <= options_.tolerance_change) {
    stop_ = DescentStop::kChange;
  }
  return true;
}

std::map<std::string, torch::Tensor> Lbfgs::state() const {
  auto state = history_.state();
  state["counters"] = torch::tensor(
      {iterations_, line_.evaluations(), static_cast<int64_t>(stop_)},
      torch::kInt64);
  state["last"] =
      torch::tensor({line_.now().loss, line_.now().norm, line_.root_noise()},
                    torch::kFloat64);
  return state;
}

void Lbfgs::restore(const std::map<std::string, torch::Tensor>& state) {
  const auto counters = state_entry(state, "counters", torch::kInt64, {3});
  const auto last = state_entry(state, "last", torch::kFloat64, {3});
  const int64_t* count = counters.data_ptr<int64_t>();
  const auto stop = static_cast<DescentStop>(count[2]);
  if (count[0] < 0 || count[1] < 0 || config::name_of(stop) == "?") {
    throw DataError(fmt::format(
        "[lbfgs] expected counts and a reason to stop, got {}, {} and {}",
        count[0], count[1], count[2]));
  }
  const auto pairs = state.find("pairs");
  const bool finer = pairs != state.end() &&
                     pairs->second.scalar_type() == torch::kFloat32 &&
                     line_.origin().scalar_type() == torch::kFloat64;
  const double* number = last.data_ptr<double>();
  if (!finer) {  // else what rounding has stopped goes on
    history_.restore(state);
    stop_ = stop;
    line_.recall_noise(number[2]);
  }
  iterations_ = count[0];
  line_.recall(number[0], number[1], count[1]);
}

}  // namespace propagator::train
