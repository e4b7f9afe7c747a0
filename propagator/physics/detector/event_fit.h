#pragma once

#include <torch/types.h>

#include "propagator/physics/detector/light_events.h"

namespace propagator::physics {

struct EventFitOptions {
  int64_t starts = 8;  // of a 3 × 3 × 3 lattice of them, the best
  int64_t max_iterations = 100;
  double tolerance = 1e-10;    // m, of the last step
  double least_jitter = 0.01;  // ns; a likelihood needs some
};

// Where the events were, on the CPU in float64. Vertices are in the detector's
// volume, unknown times on its window: a minimum outside becomes the best
// point on the wall.
struct EventFit {
  torch::Tensor vertices;  // (N, 3) m
  torch::Tensor offsets;   // (N) ns; 0 if the event's time is known
  // (N, 3, 3) m², the time's uncertainty included; NaN where the data leave a
  // direction open. It knows of no walls.
  torch::Tensor covariances;
  torch::Tensor cost;       // (N)
  torch::Tensor converged;  // (N) bool
  // (N) bool: another minimum in the volume, over 1 mm away, is as good: its
  // χ² (its -2 log likelihood) is larger by 1 at most or, for least squares
  // without jitter, it fits the times to 1e-6 ns.
  torch::Tensor ambiguous;

  int64_t size() const { return vertices.size(0); }
};

// The least squares of hit times, from times alone:
//   min over x (and t₀ if the event's time is unknown) of
//   cost = Σ over hits of (t - n|x - s|/c - t₀)², ns²,
// by Gauss–Newton with damping from several starts (and the exact solutions, if
// there are as many hits as unknowns), the best kept. Covariances
// are jitter² (JᵀJ)⁻¹. Of `events` only times and hits are read. UsageError if
// their shapes are wrong, DataError if a time is not finite or an event has
// fewer hits than unknowns.
EventFit least_squares(const Detector& detector, const Events& events,
                       const EventFitOptions& options = {});

// The maximum of the simulator's own likelihood: hit times with jitter and dark
// hits, which sensors fired and, if `events` have charges and there are no dark
// hits, how much light they saw (uses_charges). cost = -log likelihood
// (densities per ns), covariances the inverse of its second derivatives.
// Newton's method from the minima of least squares, from those of a likelihood
// of broad jitter and, if there are dark hits, from exact solutions of a few
// hits; the best is kept. A jitter below `least_jitter` is taken as that: then
// light and time disagree by micrometres, and by more where the sensors fix a
// direction badly, while least squares is exact. The trigger does not enter: a
// flash below it is drawn anew with its vertex, so the vertex's density given
// the hits is the likelihood's. Errors as above.
EventFit maximum_likelihood(const Detector& detector, const Events& events,
                            const EventFitOptions& options = {});

// Whether the likelihood of such a detector's events reads their charges.
bool uses_charges(const Detector& detector);

// The log likelihood of vertices (N, 3) and times (N) for the events, by the
// same formulas.
struct LogLikelihood {
  torch::Tensor values;     // (N), densities per ns
  torch::Tensor gradients;  // (N, 4) by x, y, z (1/m) and time (1/ns)
  torch::Tensor seconds;    // (N, 4, 4)
};
LogLikelihood log_likelihood(const Detector& detector, const Events& events,
                             const torch::Tensor& vertices,
                             const torch::Tensor& offsets,
                             const EventFitOptions& options = {});

}  // namespace propagator::physics
