#include "propagator/physics/detector/event_objective.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace propagator::physics {
namespace {

// No sensor is nearer than this (m): directions stay defined.
constexpr double kNearest = 1e-9;

// The distance of the vertex from a sensor and the unit vector towards it.
double distance(const Unknowns& at, const Point& sensor, Point& towards) {
  double square = kNearest * kNearest;
  for (int k = 0; k < 3; ++k) {
    towards[k] = at[k] - sensor[k];
    square += towards[k] * towards[k];
  }
  const double d = std::sqrt(square);
  for (double& t : towards) t /= d;
  return d;
}

}  // namespace

EventView::EventView(const Detector& detector)
    : positions_(detector.positions().data_ptr<double>()),
      light_speed_(detector.light_speed()),
      sensors_(detector.sensors()),
      paths_(detector.sensors()),
      charges_(detector.sensors()) {}

void EventView::load(const double* times, const bool* hits,
                     const double* charges) {
  int64_t last = sensors();
  hits_ = 0;
  has_charges_ = charges != nullptr;
  for (int64_t i = 0; i < sensors(); ++i) {
    const double* p = positions_ + 3 * i;
    if (hits[i]) paths_[hits_] = light_speed_ * times[i];
    if (hits[i] && has_charges_) charges_[hits_] = charges[i];
    sensors_[hits[i] ? hits_++ : --last] = {p[0], p[1], p[2]};
  }
}

double TimeResiduals::value(const Unknowns& at) const {
  double sum = 0;
  Point towards;
  for (int64_t i = 0; i < event_.hits(); ++i) {
    const double d = distance(at, event_.sensor(i), towards);
    const double r = event_.path(i) - d - (unknowns_ > 3 ? at[3] : 0);
    sum += r * r;
  }
  return sum;
}

double TimeResiduals::derivatives(const Unknowns& at, Unknowns& gradient,
                                  Square& second) const {
  gradient = {};
  second = {};
  double sum = 0;
  Point u;
  for (int64_t i = 0; i < event_.hits(); ++i) {
    const double d = distance(at, event_.sensor(i), u);
    const double r = event_.path(i) - d - (unknowns_ > 3 ? at[3] : 0);
    sum += r * r;
    const Unknowns slope{u[0], u[1], u[2], 1};  // of -r
    for (int j = 0; j < unknowns_; ++j) {
      gradient[j] -= 2 * r * slope[j];
      for (int k = 0; k <= j; ++k) second[j][k] += 2 * slope[j] * slope[k];
    }
  }
  for (int j = 0; j < 4; ++j) {
    for (int k = 0; k < j; ++k) second[k][j] = second[j][k];
  }
  return sum;
}

EventLikelihood::EventLikelihood(const EventView& event,
                                 const Detector& detector, int unknowns,
                                 double jitter)
    : event_(event),
      unknowns_(unknowns),
      light_(detector.light_at_unit()),
      sigma_(jitter * detector.light_speed()),
      window_(detector.options().window * detector.light_speed()),
      dark_(detector.options().dark),
      rate_(dark_ / window_),
      log_norm_(-std::log(sigma_ * std::sqrt(2 * std::numbers::pi))),
      log_rate_(std::log(rate_)),
      log_speed_(std::log(detector.light_speed())) {}

// The density is e^a + e^b, light first or dark first, times what is left of
// the dark hits; each term by its logarithm, since either may underflow.
EventLikelihood::Term EventLikelihood::hit(double d, double t) const {
  const double lambda = light_ / (d * d);
  const double l1 = -2 * lambda / d, l2 = 6 * lambda / (d * d);
  const double odds = 1 / std::expm1(lambda);               // e^-λ / q
  const double q1 = l1 * odds, q2 = (l2 - l1 * l1) * odds;  // q'/q, q''/q
  const double z = (t - d) / sigma_, s = 1 / sigma_;
  const double q = -std::expm1(-lambda);
  Term a{std::log(q) - 0.5 * z * z + log_norm_,
         q1 + z * s,
         -z * s,
         q2 - q1 * q1 - s * s,
         s * s,
         -s * s};
  const bool in_window = rate_ > 0 && t >= 0 && t <= window_;
  if (!in_window) {
    a.value -= t > window_ ? dark_ : 0;
    return a;
  }
  const double below = 0.5 * std::erfc(-z * std::numbers::sqrt2 / 2);
  const double above = 0.5 * std::erfc(z * std::numbers::sqrt2 / 2);
  const double phi =
      std::exp(-0.5 * z * z) * s / std::sqrt(2 * std::numbers::pi);
  const double left = std::exp(-lambda) + q * above;  // 1 - q Φ(z)
  const double b = log_rate_ + std::log(left);
  const double most = std::max(a.value, b);
  const double wa = std::exp(a.value - most), wb = std::exp(b - most);
  const double value = most + std::log(wa + wb) - rate_ * t;
  const double pa = wa / (wa + wb);
  // Derivatives of the density over the density: those of e^a, then of r·left.
  const double pb = wb > 0 ? wb / (wa + wb) / left * q : 0;
  const double fd = pa * a.d + pb * (phi - q1 * below);
  const double ft = pa * a.t - pb * phi;
  const double fdd =
      pa * (a.dd + a.d * a.d) + pb * (2 * q1 * phi - q2 * below + z * s * phi);
  const double fdt = pa * (a.dt + a.d * a.t) - pb * (q1 * phi + z * s * phi);
  const double ftt = pa * (a.tt + a.t * a.t) + pb * z * s * phi;
  return {value, fd, ft - rate_, fdd - fd * fd, fdt - fd * ft, ftt - ft * ft};
}

EventLikelihood::Term EventLikelihood::charged_hit(double d, double t,
                                                   double charge) const {
  const double lambda = light_ / (d * d);
  const double z = (t - d) / sigma_, s = 1 / sigma_;
  return {charge * std::log(lambda) - lambda - std::lgamma(charge + 1) -
              0.5 * z * z + log_norm_,
          2 * (lambda - charge) / d + z * s,
          -z * s,
          (2 * charge - 6 * lambda) / (d * d) - s * s,
          s * s,
          -s * s};
}

EventLikelihood::Term EventLikelihood::term_of(int64_t i, double d,
                                               double zero) const {
  const double lambda = light_ / (d * d);
  if (i >= event_.hits()) {
    return {-lambda - dark_, 2 * lambda / d, 0, -6 * lambda / (d * d), 0, 0};
  }
  const double t = event_.path(i) - zero;
  auto term = event_.has_charges() && dark_ == 0
                  ? charged_hit(d, t, event_.charge(i))
                  : hit(d, t);
  term.value += log_speed_;
  return term;
}

double EventLikelihood::value(const Unknowns& at) const {
  double sum = 0;
  Point u;
  const double zero = unknowns_ > 3 ? at[3] : 0;
  for (int64_t i = 0; i < event_.sensors(); ++i) {
    const double d = distance(at, event_.sensor(i), u);
    sum -= term_of(i, d, zero).value;
  }
  return sum;
}

double EventLikelihood::derivatives(const Unknowns& at, Unknowns& gradient,
                                    Square& second) const {
  gradient = {};
  second = {};
  double sum = 0;
  Point u;
  const double zero = unknowns_ > 3 ? at[3] : 0;
  for (int64_t i = 0; i < event_.sensors(); ++i) {
    const double d = distance(at, event_.sensor(i), u);
    const auto term = term_of(i, d, zero);
    sum -= term.value;
    for (int j = 0; j < 3; ++j) {
      gradient[j] -= term.d * u[j];
      // ∇∇ d = (1 - u uᵀ) / d
      for (int k = 0; k <= j; ++k) {
        second[j][k] -= (term.dd - term.d / d) * u[j] * u[k];
      }
      second[j][j] -= term.d / d;
      second[3][j] += term.dt * u[j];
    }
    gradient[3] += term.t;
    second[3][3] -= term.tt;
  }
  for (int j = 0; j < 4; ++j) {
    for (int k = 0; k < j; ++k) second[k][j] = second[j][k];
  }
  return sum;
}

}  // namespace propagator::physics
