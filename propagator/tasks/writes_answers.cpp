#include "propagator/tasks/writes_answers.h"

#include <fmt/ranges.h>

#include "propagator/core/error.h"

namespace propagator::tasks {

void expect_answer_shape(const std::string& name, const torch::Tensor& answer,
                         torch::IntArrayRef shape) {
  if (answer.sizes() == shape) return;
  throw UsageError(fmt::format("expected room for '{}' of shape ({}), got ({})",
                               name, fmt::join(shape, ", "),
                               fmt::join(answer.sizes(), ", ")));
}

}  // namespace propagator::tasks
