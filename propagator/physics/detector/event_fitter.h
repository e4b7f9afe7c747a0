#pragma once

#include <array>
#include <span>
#include <vector>

#include "propagator/core/random.h"
#include "propagator/physics/detector/event_fit.h"
#include "propagator/physics/detector/event_objective.h"

namespace propagator::physics {

// Fits events one after another without allocating; each thread has its own.
class EventFitter {
 public:
  static constexpr int kLattice = 27;

  EventFitter(const Detector& detector, const EventFitOptions& options);
  EventFitter(const EventFitter&) = delete;  // its objectives refer to it

  int unknowns() const { return bounds_.unknowns; }
  const TimeResiduals& residuals() const { return residuals_; }
  const EventLikelihood& likelihood() const { return likelihood_; }

  // The event that the rest is about, as EventView takes it.
  void load(const double* times, const bool* hits, const double* charges) {
    event_.load(times, hits, charges);
  }

  // The minima that the starts lead to, each once, the best first.
  const std::vector<Minimum>& fit_times();
  const std::vector<Minimum>& fit_likelihood();

 private:
  Minimum descend(const EventObjective& f, const Unknowns& start) const {
    return minimise(f, bounds_, start, options_.max_iterations,
                    options_.tolerance);
  }
  // The lattice's `count` best points come first in order_; with each goes the
  // median of the times that the hits give there.
  void choose_starts(const EventObjective& f, int64_t count);
  double median_path(const Unknowns& at);
  // Dark hits spoil a fit of all hits, so some subsets of the fewest hits that
  // give a vertex are all light: the exact solutions of greatest likelihood.
  static constexpr int kSubsets = 3;
  // Where there are fewer, the value is infinite.
  const std::array<Minimum, kSubsets>& choose_subsets();
  void try_subset();
  std::span<const int64_t> first_hits();

  const EventFitOptions& options_;
  Bounds bounds_;
  EventView event_;
  TimeResiduals residuals_;
  EventLikelihood broad_, likelihood_;
  std::array<Unknowns, kLattice> lattice_{};
  std::array<int, kLattice> order_{};
  bool dark_;
  RandomStream stream_{0, "event_fit/subsets"};
  std::array<int64_t, 4> subset_{};
  std::array<Minimum, kSubsets> chosen_{};
  std::vector<double> paths_;
  std::vector<Minimum> by_times_, by_broad_, by_likelihood_;
};

}  // namespace propagator::physics
