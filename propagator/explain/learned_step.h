#pragma once

#include <nlohmann/json.hpp>

#include "propagator/report/report.h"
#include "propagator/tasks/explainable.h"

namespace propagator::explain {

// Does the step that a model of fields has learned act at a single cell as the
// physics does? With J_k the derivative of the next frame with respect to given
// frame k, of g, and A the true step, which is linear:
//   P = Σ_k J_k Aᵏ   against   A^g,
// what a small change of the first given frame becomes, which the truth carries
// through the other given frames. With one given frame P is J_0. (Beyond one,
// J of the last frame alone need not be A: frames that follow one another say
// the same, and a model may take it from any of them.) J has the identity in it
// where a network predicts changes. Rows are those of output cells, by reverse
// differentiation; all in float64 on the CPU, flat, a node's channels together.
struct LearnedStep {
  int64_t given = 1, channels = 1;
  std::vector<int64_t> nodes;  // along each axis
  std::vector<int64_t> cell;   // the one to show
  std::vector<int64_t> cells;  // numbers of those that are looked at
  int64_t shown = 0;           // place of `cell` among them
  bool every_cell() const;
  int64_t numbers() const;  // of a frame: F

  torch::Tensor rows;  // J: (cells · C, given, F)
  // (cells · C, F) each; undefined where the truth is not known.
  torch::Tensor carried, truth;  // P, A^g
  std::string law;
  double truth_error = 0;

  // Frobenius, over the rows, as a share of the truth's. Of `kept`: a model
  // that keeps the last given frame, A^(g-1).
  struct Distance {
    double learned = 0, kept = 0;
  };
  Distance at_cells;      // of P and A^g themselves
  Distance in_data;       // of P D and A^g D, D differences of training cases
  double last_frame = 0;  // of J_(g-1) and A

  // Of the map of windows to the window one frame later, largest modulus first;
  // undefined where it is too large, or a forecast does not repeat the step.
  // The true ones are those of A.
  static constexpr int64_t kMostEigenvalues = 2048;
  torch::Tensor eigenvalues, true_eigenvalues;  // complex
  double work_for_eigenvalues = 0;              // that it would take

  double largest() const;  // modulus of the eigenvalues
  double true_largest() const;
  std::string verdict() const;
  nlohmann::json to_json() const;
};

// Of the subject's fields.
std::vector<int64_t> cells_along(const tasks::StepSubject& subject);

// UsageError unless the grid has such a cell.
void expect_cell(const std::vector<int64_t>& cell,
                 const std::vector<int64_t>& nodes);

// `cell`: place along each axis; empty: the middle. `max_work`: floating-point
// operations to spend.
LearnedStep learn_step(const tasks::StepSubject& subject,
                       const std::vector<int64_t>& cell, double max_work);

// Figures step-matrix (of one axis), step-cell, step-window (of several given
// frames) and step-eigenvalues.
void draw(const LearnedStep& step, const tasks::StepSubject& subject,
          report::Report& report);

}  // namespace propagator::explain
