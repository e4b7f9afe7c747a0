#include "propagator/tasks/forecast/baselines.h"

namespace propagator::tasks {

torch::Tensor keep_last_frame(const torch::Tensor& frames, int64_t visible) {
  auto answer = frames.narrow(1, visible - 1, 1).expand_as(frames).clone();
  answer.narrow(1, 0, visible).copy_(frames.narrow(1, 0, visible));
  return answer;
}

torch::Tensor line_to_steady_state(const physics::HeatPlateOptions& plate,
                                   const torch::Tensor& frames,
                                   int64_t visible) {
  const auto last = frames.select(1, visible - 1);  // (B, R, C)
  const auto steady = physics::steady_state(plate, last);
  const int64_t hidden = frames.size(1) - visible;
  const auto share = (torch::arange(1, hidden + 1, frames.options()) / hidden)
                         .view({-1, 1, 1});
  auto answer = frames.clone();
  answer.narrow(1, visible, hidden)
      .copy_(last.unsqueeze(1) + share * (steady - last).unsqueeze(1));
  return answer;
}

torch::Tensor continue_scheme(const physics::HeatPlateOptions& plate,
                              const torch::Tensor& frames,
                              const torch::Tensor& alpha,
                              const torch::Tensor& dt, int64_t visible) {
  auto rest = plate;
  rest.frames = frames.size(1) - visible + 1;
  const auto last = frames.select(1, visible - 1);
  return torch::cat({frames.narrow(1, 0, visible),
                     physics::solve(rest, {last, alpha, dt}).slice(1, 1)},
                    1);
}

}  // namespace propagator::tasks
