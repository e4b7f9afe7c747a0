#pragma once

#include <cstdint>
#include <vector>

#include "propagator/physics/detector/confined_newton.h"
#include "propagator/physics/detector/detector.h"

namespace propagator::physics {

// What one event shows: the sensors that were hit first, then the others.
// Times are paths of light (m), c/n · t.
class EventView {
 public:
  explicit EventView(const Detector& detector);

  // `times` and `hits` are rows of S, and so are `charges`, if there are any.
  void load(const double* times, const bool* hits,
            const double* charges = nullptr);

  int64_t hits() const { return hits_; }
  int64_t sensors() const { return static_cast<int64_t>(sensors_.size()); }
  const Point& sensor(int64_t i) const { return sensors_[i]; }
  double path(int64_t i) const { return paths_[i]; }  // i < hits()
  bool has_charges() const { return has_charges_; }
  double charge(int64_t i) const { return charges_[i]; }  // i < hits()

 private:
  const double* positions_;
  double light_speed_;
  int64_t hits_ = 0;
  std::vector<Point> sensors_;
  std::vector<double> paths_, charges_;
  bool has_charges_ = false;
};

// Σ over hits of (path - |x - s| - b)², m²; Gauss–Newton's second derivatives.
class TimeResiduals : public EventObjective {
 public:
  TimeResiduals(const EventView& event, int unknowns)
      : event_(event), unknowns_(unknowns) {}

  double value(const Unknowns& at) const override;
  double derivatives(const Unknowns& at, Unknowns& gradient,
                     Square& second) const override;

 private:
  const EventView& event_;
  int unknowns_;
};

// -log of the density (per ns) of all that the sensors report, given vertex
// and time. With τ the path since the flash, q = 1 - e^-λ(d), z = (τ - d)/σ and
// dark hits of rate r in the window, a sensor gives
//   hit      log [ q φ(z)/σ + r (1 - q Φ(z)) ] - r · (τ within the window),
//   not hit  -λ(d) - dark.
// If the event has charges and there are no dark hits, a hit of n
// photoelectrons has the probability of just so many, log q becomes n log λ - λ
// - log n!. Beside dark hits charges are left out. Second derivatives are
// exact.
class EventLikelihood : public EventObjective {
 public:
  // `jitter` (ns) stands in place of the detector's.
  EventLikelihood(const EventView& event, const Detector& detector,
                  int unknowns, double jitter);

  double value(const Unknowns& at) const override;
  double derivatives(const Unknowns& at, Unknowns& gradient,
                     Square& second) const override;

 private:
  // log density of a hit with its derivatives by distance and by path.
  struct Term {
    double value, d, t, dd, dt, tt;
  };
  Term hit(double distance, double path) const;
  // The same of a charge too.
  Term charged_hit(double distance, double path, double charge) const;
  Term term_of(int64_t sensor, double distance, double zero) const;

  const EventView& event_;
  int unknowns_;
  double light_, sigma_, window_, dark_, rate_;  // in metres
  double log_norm_, log_rate_, log_speed_;
};

}  // namespace propagator::physics
