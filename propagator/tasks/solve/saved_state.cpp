#include "propagator/tasks/solve/saved_state.h"

#include <fmt/format.h>

#include "propagator/core/error.h"

namespace propagator::tasks {

void restore_state(const train::NamedTensors& state,
                   const train::NamedTensors& saved) {
  for (const auto& [name, tensor] : state) {
    const auto found = saved.find(name);
    if (found == saved.end() || found->second.sizes() != tensor.sizes()) {
      throw DataError(fmt::format(
          "[solve] the checkpoint has no '{}' of this configuration", name));
    }
    tensor.copy_(found->second);
  }
}

}  // namespace propagator::tasks
