#include "propagator/tasks/density/inference.h"

#include "propagator/tasks/density/vertex_inference.h"

namespace propagator::tasks {

void InferenceOptions::describe(config::Schema& s) {
  s.field("name", name,
          {.help = "a question that a simulator asks: where in a detector was "
                   "the event whose hits are observed?"});
  s.section("detector", detector);
}

torch::Tensor complete(const Inference* inference, const torch::Tensor& given) {
  if (!inference) return given;
  const auto observed = given.to(torch::kCPU, torch::kFloat64);
  return torch::cat({inference->estimate(observed), observed}, 1);
}

std::unique_ptr<Inference> InferenceOptions::make() const {
  if (name == InferenceName::kNone) return nullptr;
  return std::make_unique<VertexInference>(detector);
}

}  // namespace propagator::tasks
