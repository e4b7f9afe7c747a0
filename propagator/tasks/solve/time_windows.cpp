#include "propagator/tasks/solve/time_windows.h"

#include <torch/utils.h>

namespace propagator::tasks {

torch::Tensor TimeWindows::of(const torch::Tensor& points,
                              const Runtime& runtime) const {
  const auto at = points.to(runtime.device, runtime.dtype());
  if (tokens == 1) return at.unsqueeze(1);
  auto windows = at.unsqueeze(1).repeat({1, tokens, 1});
  windows.select(-1, time) += torch::arange(tokens, windows.options()) * step;
  return windows;
}

}  // namespace propagator::tasks
