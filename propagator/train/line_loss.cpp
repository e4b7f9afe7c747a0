#include "propagator/train/line_loss.h"

#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/core/error.h"
#include "propagator/train/line_search.h"

namespace propagator::train {
namespace {

// Noise is measured at so many places, so many last digits of the parameters
// apart: near enough for the loss to be smooth. This many standard deviations
// of it are allowed for.
constexpr size_t kPlaces = 9;
constexpr double kDigits = 100;
constexpr double kDeviations = 4;

const torch::Tensor& checked(const torch::Tensor& values, const char* where) {
  const auto type = values.scalar_type();
  if (type != torch::kFloat64 && type != torch::kFloat32) {
    throw UsageError(
        fmt::format("[{}] expected parameters in float32 or float64, got {}",
                    where, torch::toString(type)));
  }
  return values;
}

double last_digit(const torch::Tensor& values) {
  return values.scalar_type() == torch::kFloat64
             ? std::numeric_limits<double>::epsilon()
             : std::numeric_limits<float>::epsilon();
}

}  // namespace

LineLoss::LineLoss(FlatParameters& parameters, const char* where)
    : parameters_(parameters),
      origin_(torch::zeros_like(checked(parameters.values(), where))),
      gradient_(torch::zeros_like(origin_)),
      direction_(torch::zeros_like(origin_)),
      lowest_gradient_(torch::zeros_like(origin_)) {}

bool LineLoss::Reading::is_finite() const {
  return std::isfinite(loss) && std::isfinite(slope) && std::isfinite(norm);
}

LineLoss::Reading LineLoss::evaluate(const Closure& closure) {
  ++evaluations_;
  const auto loss = closure().detach().to(torch::kFloat64).view({1});
  const torch::NoGradGuard no_grad;
  // Three vectors are soon converted, unlike a history, and sums over n are
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

LineLoss::Reading LineLoss::look(const Closure& closure, double step) {
  torch::add_out(parameters_.values(), origin_, direction_, step);
  try {
    return evaluate(closure);
  } catch (...) {
    back_to_origin();
    throw;
  }
}

bool LineLoss::start(const Closure& closure) {
  const Reading reading = evaluate(closure);
  if (reading.is_finite()) now_ = reading;
  return reading.is_finite();
}

void LineLoss::set_origin() {
  origin_.copy_(parameters_.values());
  gradient_.copy_(parameters_.gradients());
}

void LineLoss::back_to_origin() {
  parameters_.values().copy_(origin_);
  parameters_.gradients().copy_(gradient_);
}

double LineLoss::noise() const {
  // Rounding of the parameters alone moves the loss by ε Σ |x_i g_i|. For a sum
  // of squared small residuals that is far more than ε times the loss.
  const double epsilon = last_digit(origin_);
  // What was found by measuring goes with the residuals, like the root of the
  // loss.
  return std::max(epsilon * std::max(2 * std::abs(now_.loss), now_.weighted),
                  root_noise_ * std::sqrt(std::abs(now_.loss)));
}

bool LineLoss::finds_noise(const Closure& closure) {
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

std::optional<LineLoss::Advance> LineLoss::advance(const Closure& closure,
                                                   double slope,
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
    return std::nullopt;
  }
  if (step != last_step) {  // then it is the lowest
    torch::add_out(values, origin_, direction_, step);
    gradients.copy_(lowest_gradient_);
    last = lowest;
  }
  const Advance made{step, now_.loss};
  now_ = last;
  return made;
}

void LineLoss::recall(double loss, double norm, int64_t evaluations) {
  now_.loss = loss;
  now_.norm = norm;
  evaluations_ = evaluations;
}

}  // namespace propagator::train
