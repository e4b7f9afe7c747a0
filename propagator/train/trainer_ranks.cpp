#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "propagator/core/error.h"
#include "propagator/core/ranks.h"
#include "propagator/train/trainer.h"

// What the trainers of several ranks must agree on to take the same steps.

namespace propagator::train {

double Trainer::shared_seconds() const {
  const auto now = torch::full({1}, seconds(), torch::kFloat64);
  ranks().broadcast(now, 0);
  return now.item<double>();
}

StopReason Trainer::reason_to_stop() const {
  const auto own = static_cast<int>(own_reason_to_stop());
  for (const auto& said : ranks().gather(std::to_string(own))) {
    const auto reason = static_cast<StopReason>(std::stoi(said));
    if (reason != StopReason::kFinished) return reason;
  }
  return StopReason::kFinished;
}

// Equal sums of all weights and of their squares: what rounds differently
// anywhere soon differs here.
void Trainer::expect_equal_ranks() {
  if (!ranks().are_several()) return;
  const torch::NoGradGuard no_grad;
  const auto weights =
      stepper_.parameters().values().to(torch::kCPU, torch::kFloat64);
  const auto said =
      ranks().gather(fmt::format("{} {}", weights.sum().item<double>(),
                                 weights.square().sum().item<double>()));
  for (size_t rank = 1; rank < said.size(); ++rank) {
    if (said[rank] == said[0]) continue;
    throw RuntimeError(
        ExitCode::kFailure,
        fmt::format("[train] rank {} has other weights than rank 0 at step {}",
                    rank, step_),
        "all ranks need the same kind of processor, the same libraries and "
        "the same number of threads");
  }
}

}  // namespace propagator::train
