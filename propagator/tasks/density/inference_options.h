#pragma once

#include <memory>

#include "propagator/core/config.h"
#include "propagator/physics/detector/detector.h"
#include "propagator/tasks/density/inference.h"
#include "propagator/tasks/density/plate_inference.h"
#include "propagator/tasks/density/wake_inference.h"

namespace propagator::tasks {

enum class InferenceName { kNone, kVertex, kPlate, kWake };

struct InferenceOptions {
  InferenceName name = InferenceName::kNone;
  physics::DetectorOptions detector = {.jitter = 1};
  PlateInferenceOptions plate;
  WakeInferenceOptions wake;

  void describe(config::Schema& schema);
  // ConfigError if the fields contradict one another; nothing of `none`.
  std::unique_ptr<Inference> make() const;
};

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::InferenceName> {
  using enum tasks::InferenceName;
  static constexpr std::pair<tasks::InferenceName, const char*> all[] = {
      {kNone, "none"}, {kVertex, "vertex"}, {kPlate, "plate"}, {kWake, "wake"}};
};

}  // namespace propagator::config
