#include "propagator/tasks/density/inference_options.h"

#include "propagator/tasks/density/vertex_inference.h"

namespace propagator::tasks {

void InferenceOptions::describe(config::Schema& s) {
  s.field("name", name,
          {.help = "a question that a simulator asks. vertex: where in a "
                   "detector was the event whose hits are observed? plate: how "
                   "does a plate conduct heat, and how warm was it at first, "
                   "given some noisy frames?"});
  s.section("detector", detector);
  s.section("plate", plate);
}

std::unique_ptr<Inference> InferenceOptions::make() const {
  switch (name) {
    case InferenceName::kVertex:
      return std::make_unique<VertexInference>(detector);
    case InferenceName::kPlate:
      return std::make_unique<PlateInference>(plate);
    default:
      return nullptr;
  }
}

}  // namespace propagator::tasks
