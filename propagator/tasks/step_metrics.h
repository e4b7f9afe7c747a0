#pragma once

namespace propagator::tasks {

// Metrics of a forecast of fields whose step is compared with the true one,
// beside those of its test: relative errors of the learned step at single
// cells, and in the directions of the data.
inline constexpr const char* kStepAtCells = "learned step, cells";
inline constexpr const char* kStepInData = "learned step, data";

}  // namespace propagator::tasks
