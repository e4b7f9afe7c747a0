#pragma once

#include "propagator/tasks/surrogate.h"

namespace propagator::tasks {

// Of a surrogate whose answers are large enough that a copy of them counts: it
// writes them to where the caller wants them.
class WritesAnswers {
 public:
  virtual ~WritesAnswers() = default;

  // As Surrogate::apply, into those answers that are given: tensors of any
  // floating type, layout and device, which share no memory with the inputs.
  // UsageError if one has not the answer's shape. After an error they may be
  // written in part.
  virtual void apply_into(const NamedTensors& inputs,
                          const NamedTensors& answers) const = 0;

  // The shapes of all answers to these inputs. UsageError if an input is
  // missing or misshapen.
  virtual std::map<std::string, std::vector<int64_t>> answer_shapes(
      const NamedTensors& inputs) const = 0;
};

// UsageError names the answer unless it has this shape.
void expect_answer_shape(const std::string& name, const torch::Tensor& answer,
                         torch::IntArrayRef shape);

}  // namespace propagator::tasks
