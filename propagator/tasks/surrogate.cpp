#include "propagator/tasks/surrogate.h"

#include <fmt/ranges.h>

#include "propagator/core/error.h"

namespace propagator::tasks {

const torch::Tensor& input_named(const NamedTensors& inputs,
                                 const std::string& name) {
  const auto found = inputs.find(name);
  if (found != inputs.end() && found->second.defined()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, value] : inputs) names.push_back(known);
  throw UsageError(fmt::format("[apply] expected a tensor named '{}', got {}",
                               name, fmt::join(names, ", ")));
}

}  // namespace propagator::tasks
