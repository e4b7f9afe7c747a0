#include "propagator/tasks/density/inference_options.h"

#include "propagator/tasks/density/vertex_inference.h"

namespace propagator::tasks {

void InferenceOptions::describe(config::Schema& s) {
  s.field("name", name,
          {.help = "a question that a simulator asks. vertex: where in a "
                   "detector was the event whose hits are observed? plate: how "
                   "does a plate conduct heat, and how warm was it at first, "
                   "given some noisy frames? wake: which Reynolds number has a "
                   "wake, given velocities at some sensors?"});
  s.section("detector", detector);
  s.section("plate", plate);
  s.section("wake", wake);
}

std::unique_ptr<Inference> InferenceOptions::make() const {
  switch (name) {
    case InferenceName::kVertex:
      return std::make_unique<VertexInference>(detector);
    case InferenceName::kPlate:
      return std::make_unique<PlateInference>(plate);
    case InferenceName::kWake:
      return std::make_unique<WakeInference>(wake);
    default:
      return nullptr;
  }
}

}  // namespace propagator::tasks
