#pragma once

#include <functional>
#include <optional>

#include "propagator/data/fields/field_source.h"

namespace propagator::tasks {

// What a frame's changes (N, nodes…, C) become by the next frame, where an
// equation that is linear says it exactly.
struct KnownStep {
  std::function<torch::Tensor(const torch::Tensor&)> map;
  std::string law;  // "advection, u_t + 0.5 u_x = 0, over a time of 0.1"
};

// Whether fields of this simulator may have one.
bool may_have_known_step(const std::string& simulator);

// Of a case with these numbers (P), in fields of our simulators `advection`,
// `blobs` and `heat-fields` on the square, by what the file's note says;
// nothing of others.
std::optional<KnownStep> known_step(const nlohmann::json& note,
                                    const data::FieldLayout& layout,
                                    const torch::Tensor& parameters);

// Relative L2 of a case's frames (T, nodes…, C), the first aside, against what
// the step makes of the frames before them.
double step_error(const KnownStep& step, const torch::Tensor& frames);

}  // namespace propagator::tasks
