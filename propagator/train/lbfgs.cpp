#include "propagator/train/lbfgs.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "propagator/core/error.h"
#include "propagator/train/line_search.h"

namespace propagator::train {
namespace {

// Of the steepest descent's usual first step, after a search that failed.
constexpr double kSmall = 0.01;

// Noise is measured at so many places, so many last digits of the parameters
// apart: near enough for the loss to be smooth. This many standard deviations
// of it are allowed for.
constexpr size_t kPlaces = 9;
constexpr double kDigits = 100;
constexpr double kDeviations = 4;

const torch::Tensor& checked(const torch::Tensor& values) {
  const auto type = values.scalar_type();
  if (type != torch::kFloat64 && type != torch::kFloat32) {
    throw UsageError(
        fmt::format("[lbfgs] expected parameters in float32 or float64, got {}",
                    torch::toString(type)));
  }
  return values;
}

const char* way_on(Precision precision) {
  switch (precision) {
    case Precision::kFloat64:
      return "";
    case Precision::kFloat32:
      return " (in fp32; resumed in fp64 it goes further)";
    default:
      return " (fp32 goes further)";
  }
}

double last_digit(const torch::Tensor& values) {
  return values.scalar_type() == torch::kFloat64
             ? std::numeric_limits<double>::epsilon()
             : std::numeric_limits<float>::epsilon();
}

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

std::string reason(LbfgsStop stop, Precision precision) {
  switch (stop) {
    case LbfgsStop::kNone:
      return "it has not stopped";
    case LbfgsStop::kGradient:
      return "no component of the gradient is above the tolerance";
    case LbfgsStop::kChange:
      return "the loss or the parameters change by less than the tolerance";
    case LbfgsStop::kLineSearch:
      return fmt::format(
          "no step lowers the loss, not even a small one against the gradient: "
          "rounding hides what is left{}, or the gradient is wrong",
          way_on(precision));
    case LbfgsStop::kNotDescent:
      return "the gradient is too small to give a direction of descent";
    case LbfgsStop::kNotFinite:
      return "the loss or its gradient is not finite at every point tried";
    case LbfgsStop::kTooLarge:
      return "the gradient is so large that its square overflows: the loss "
             "needs smaller weights or units";
  }
  return "?";
}

Lbfgs::Lbfgs(const LbfgsOptions& options, FlatParameters& parameters)
    : options_(options),
      parameters_(parameters),
      history_(options.history, checked(parameters.values())),
      origin_(torch::zeros_like(parameters.values())),
      gradient_(torch::zeros_like(origin_)),
      direction_(torch::zeros_like(origin_)),
      lowest_gradient_(torch::zeros_like(origin_)) {}

bool Lbfgs::Reading::is_finite() const {
  return std::isfinite(loss) && std::isfinite(slope) && std::isfinite(norm);
}

Lbfgs::Reading Lbfgs::evaluate(const DeviceClosure& closure) {
  ++evaluations_;
  const auto loss = closure().detach().to(torch::kFloat64).view({1});
  const torch::NoGradGuard no_grad;
  // Three vectors are soon converted, unlike the history, and sums over n are
  // then right to the last digit of a float32 gradient.
  const auto v =
      torch::stack(  // (3, n)
          {parameters_.gradients(), direction_, parameters_.values()})
          .to(torch::kFloat64);
  const auto size = v.abs();
  const auto numbers =
      torch::cat({torch::dot(v[0], v[1]).view({1}), size[0].sum().view({1}),
                  size.mv(size[0]), size.amax(1)});
  const bool together = loss.device() == numbers.device();
  const auto read = together ? torch::cat({loss, numbers}).cpu()
                             : torch::cat({loss.cpu(), numbers.cpu()});
  const double* n = read.data_ptr<double>();
  return {.loss = n[0],
          .slope = n[1],
          .sum = n[2],
          .norm = std::sqrt(n[3]),
          .weighted = n[5],
          .largest = n[6],
          .largest_direction = n[7]};
}

Lbfgs::Reading Lbfgs::look(const DeviceClosure& closure, double step) {
  torch::add_out(parameters_.values(), origin_, direction_, step);
  try {
    return evaluate(closure);
  } catch (...) {
    back_to_origin();
    throw;
  }
}

Lbfgs::Outcome Lbfgs::step(const Closure& closure) {
  return step(DeviceClosure(
      [&] { return torch::full({}, closure(), torch::kFloat64); }));
}

Lbfgs::Outcome Lbfgs::step(const DeviceClosure& closure) {
  const int64_t iterations = iterations_, evaluations = evaluations_;
  if (stop_ == LbfgsStop::kNone) {
    const Reading reading = evaluate(closure);
    if (!reading.is_finite()) {
      stop_ = LbfgsStop::kNotFinite;
    } else {
      now_ = reading;
      if (now_.largest <= options_.tolerance_gradient) {
        stop_ = LbfgsStop::kGradient;
      }
    }
  }
  while (stop_ == LbfgsStop::kNone &&
         iterations_ - iterations < options_.iterations &&
         evaluations_ - evaluations < options_.evaluations) {
    iterate(closure);
  }
  return {now_.loss, now_.norm, iterations_ - iterations,
          evaluations_ - evaluations, stop_};
}

double Lbfgs::steepest_step() const {
  return std::min(1.0, 1 / now_.sum) * options_.lr;
}

double Lbfgs::noise() const {
  // Rounding of the parameters alone moves the loss by ε Σ |x_i g_i|. For a sum
  // of squared small residuals that is far more than ε times the loss.
  const double epsilon = last_digit(origin_);
  // What was found by measuring goes with the residuals, like the root of the
  // loss.
  return std::max(epsilon * std::max(2 * std::abs(now_.loss), now_.weighted),
                  root_noise_ * std::sqrt(std::abs(now_.loss)));
}

bool Lbfgs::finds_noise(const DeviceClosure& closure) {
  const double apart = kDigits * last_digit(origin_) *
                       (origin_.norm() / direction_.norm()).item<double>();
  std::vector<double> losses;
  for (size_t n = 0; n < kPlaces; ++n) {
    losses.push_back(look(closure, static_cast<double>(n) * apart).loss);
  }
  back_to_origin();
  const double found = kDeviations * noise_of(losses);
  if (!(found > noise()) || now_.loss == 0) return false;
  root_noise_ = found / std::sqrt(std::abs(now_.loss));
  return true;
}

void Lbfgs::iterate(const DeviceClosure& closure) {
  origin_.copy_(parameters_.values());
  gradient_.copy_(parameters_.gradients());
  double slope = history_.direction(gradient_, direction_);
  bool steepest = history_.count() == 0;
  const auto turn_steepest = [&] {
    history_.forget();
    slope = history_.direction(gradient_, direction_);
    steepest = true;
  };
  if (!(slope < 0) && !steepest) turn_steepest();
  if (!(slope < 0)) {
    stop_ =
        std::isfinite(slope) ? LbfgsStop::kNotDescent : LbfgsStop::kTooLarge;
    return;
  }
  const double first_step = steepest ? steepest_step() : options_.lr;
  if (advance(closure, slope, first_step)) return;
  if (saw_finite_ && finds_noise(closure) &&
      advance(closure, slope, first_step)) {
    return;
  }
  if (!steepest) {
    turn_steepest();
    if (advance(closure, slope, kSmall * steepest_step())) return;
  }
  stop_ = saw_finite_ ? LbfgsStop::kLineSearch : LbfgsStop::kNotFinite;
}

bool Lbfgs::advance(const DeviceClosure& closure, double slope,
                    double first_step) {
  auto& values = parameters_.values();
  auto& gradients = parameters_.gradients();
  Reading last, lowest = now_;
  double last_step = 0;
  saw_finite_ = false;
  const auto at = [&](double step) -> LinePoint {
    last = look(closure, step);
    last_step = step;
    if (last.is_finite()) saw_finite_ = true;
    if (last.is_finite() && last.loss < lowest.loss) {
      lowest = last;
      lowest_gradient_.copy_(gradients);
    }
    return {step, last.loss, last.slope};
  };
  const auto found =
      search({0, now_.loss, slope}, first_step, at, {.noise = noise()});
  const double step = found.point.step;
  if (step == 0) {
    back_to_origin();
    return false;
  }
  if (step != last_step) {  // then it is the lowest
    torch::add_out(values, origin_, direction_, step);
    gradients.copy_(lowest_gradient_);
    last = lowest;
  }
  accept(last, step, slope);
  return true;
}

void Lbfgs::back_to_origin() {
  parameters_.values().copy_(origin_);
  parameters_.gradients().copy_(gradient_);
}

void Lbfgs::accept(const Reading& reading, double step, double slope) {
  // The difference of the rounded parameters, not step · direction: near the
  // end float32 rounds much of a small step away.
  history_.offer(parameters_.values() - origin_,
                 parameters_.gradients() - gradient_);
  ++iterations_;
  // Losses may be equal by rounding; then the slope says how far they are.
  const double change =
      std::max(std::abs(reading.loss - now_.loss), -slope * step);
  const double scale = std::max(std::abs(reading.loss), std::abs(now_.loss));
  now_ = reading;
  if (now_.largest <= options_.tolerance_gradient) {
    stop_ = LbfgsStop::kGradient;
  } else if (change <= options_.tolerance_change * scale ||
             step * now_.largest_direction <= options_.tolerance_change) {
    stop_ = LbfgsStop::kChange;
  }
}

std::map<std::string, torch::Tensor> Lbfgs::state() const {
  auto state = history_.state();
  state["counters"] = torch::tensor(
      {iterations_, evaluations_, static_cast<int64_t>(stop_)}, torch::kInt64);
  state["last"] =
      torch::tensor({now_.loss, now_.norm, root_noise_}, torch::kFloat64);
  return state;
}

void Lbfgs::restore(const std::map<std::string, torch::Tensor>& state) {
  const auto counters = state_entry(state, "counters", torch::kInt64, {3});
  const auto last = state_entry(state, "last", torch::kFloat64, {3});
  const int64_t* count = counters.data_ptr<int64_t>();
  const auto stop = static_cast<LbfgsStop>(count[2]);
  if (count[0] < 0 || count[1] < 0 || config::name_of(stop) == "?") {
    throw DataError(fmt::format(
        "[lbfgs] expected counts and a reason to stop, got {}, {} and {}",
        count[0], count[1], count[2]));
  }
  const auto pairs = state.find("pairs");
  const bool finer = pairs != state.end() &&
                     pairs->second.scalar_type() == torch::kFloat32 &&
                     origin_.scalar_type() == torch::kFloat64;
  if (!finer) {  // else what rounding has stopped goes on
    history_.restore(state);
    stop_ = stop;
    root_noise_ = last.data_ptr<double>()[2];
  }
  iterations_ = count[0], evaluations_ = count[1];
  now_.loss = last.data_ptr<double>()[0];
  now_.norm = last.data_ptr<double>()[1];
}

}  // namespace propagator::train
