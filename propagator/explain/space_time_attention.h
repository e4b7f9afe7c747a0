#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "propagator/report/report.h"
#include "propagator/tasks/explainable.h"

namespace propagator::explain {

// Where one patch of a transformer over patches of frames (models/space_time.h)
// attends to, in each layer, as a mean over heads.
struct SpaceTimeAttention {
  std::vector<int64_t> patches;  // along each axis
  std::vector<int64_t> query;    // place of the patch among them
  // Of its last given frame or, with a block mask, the first that is forecast:
  // weights of all patches, (layers, patches…).
  torch::Tensor space;
  // Of each given frame: weights of itself and those before it, NaN for frames
  // that are hidden or further back than it remembers, (layers, T, T). With a
  // block mask, of those and the first that is forecast: weights of the given
  // ones, (layers, T + 1, T).
  torch::Tensor time;
  bool block = false;

  // exp of the entropy: how many patches, or frames, it attends to in each
  // layer, as if equally.
  std::vector<double> patches_attended() const;
  std::vector<double> frames_attended() const;
  nlohmann::json to_json() const;
};

// Of the patch that holds the cell (empty: the middle) while the model works on
// the subject's window; nothing of another model. UsageError unless the grid
// has such a cell.
std::optional<SpaceTimeAttention> space_time_attention(
    torch::nn::Module& model, const tasks::StepSubject& subject,
    const std::vector<int64_t>& cell);

// Figures attention-space and attention-time.
void draw(const SpaceTimeAttention& attention,
          const tasks::StepSubject& subject, report::Report& report);

}  // namespace propagator::explain
