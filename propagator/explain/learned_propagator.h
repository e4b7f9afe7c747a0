#pragma once

#include <nlohmann/json.hpp>

#include "propagator/report/report.h"
#include "propagator/tasks/explainable.h"

namespace propagator::explain {

// In physics the propagator carries a first state to a later one: frame t is
// Aᵗ times frame 0. This is the one that a model has learned, J_t = ∂(frame t)/
// ∂(frame 0), beside the true one, column by column: what a small change of
// frame 0 along a direction d does to frame t. J_t d is taken by central
// differences of the model, Aᵗ d by the reference solver, which is linear.
struct LearnedPropagator {
  std::vector<int64_t> times;

  // How far apart the two are at each time, for the columns D (Frobenius):
  //   error       ‖(J_t - Aᵗ) D‖ / ‖(Aᵛ - Aᵗ) D‖, v the last given frame: 1 is
  //   a
  //               model that keeps that frame and has learned nothing;
  //   difference  ‖(J_t - Aᵗ) D‖ / ‖Aᵗ D‖.
  struct Distance {
    std::vector<double> error, difference;
  };
  // D: differences of training cases, the directions in which the data vary; a
  // model can know nothing of the others.
  Distance data;
  // D: a unit change at every node or, where that is too much work, as many
  // random directions as there is time for, which estimate the same numbers.
  Distance node;
  int64_t nodes = 0;
  int64_t directions = 0;  // columns of D behind `node`
  bool every_node() const { return directions == nodes; }

  // The response to a point source and to a difference of two training cases:
  // (times, R, C).
  torch::Tensor source_model, source_truth;
  torch::Tensor data_model, data_truth;

  // Singular values of J_t D and Aᵗ D at `spectrum_time`, largest first.
  int64_t spectrum_time = 0;
  torch::Tensor spectrum_model, spectrum_truth;

  // "error 13 % in the directions of the data, 96 % over …"
  std::string verdict() const;
  nlohmann::json to_json() const;
};

// `max_work`: floating-point operations to spend on the model. `source`: row
// and column of the point source; empty: one inside. UsageError unless there is
// such a node.
LearnedPropagator learn_propagator(const tasks::PropagatorSubject& subject,
                                   int64_t seed, double max_work,
                                   const std::vector<int64_t>& source = {});

// Figures propagator-error, propagator-source, propagator-data and
// propagator-spectrum.
void draw(const LearnedPropagator& propagator,
          const tasks::PropagatorSubject& subject, report::Report& report);

}  // namespace propagator::explain
