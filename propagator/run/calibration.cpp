#include "propagator/run/calibration.h"

#include <fmt/format.h>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/log.h"
#include "propagator/tasks/calibrated.h"

namespace propagator::run {
namespace {

constexpr const char* kStep = "best_step";

fs::path calibration_file(const train::RunDirectory& run) {
  return run.path() / "calibration.safetensors";
}

}  // namespace

void calibrate_best(const Experiment& experiment, torch::nn::Module& model,
                    const train::RunDirectory& run, int64_t best_step) {
  auto* task = dynamic_cast<tasks::Calibrated*>(&experiment.task());
  if (task == nullptr) return;
  const auto measured = task->measure_calibration(model);
  if (measured.empty()) return;
  write_file_atomically(
      calibration_file(run),
      data::to_safetensors(
          {measured, {{kStep, fmt::format("{}", best_step)}}}));
}

void use_calibration_of(const train::RunDirectory& run,
                        const fs::path& checkpoint, tasks::Task& task) {
  auto* calibrated = dynamic_cast<tasks::Calibrated*>(&task);
  const auto path = calibration_file(run);
  if (calibrated == nullptr || !fs::exists(path)) return;
  const auto saved = data::load_safetensors(path);
  const auto step = saved.metadata.find(kStep);
  if (step == saved.metadata.end()) {
    throw DataError(path.string() + ": it does not say of which step it is");
  }
  const auto state = train::load_state(checkpoint);
  const auto best = state.value("best", nlohmann::json::object());
  if (step->second != best.value("step", nlohmann::json()).dump()) {
    log::info("{} is of step {}, not of these weights, and is not used",
              path.string(), step->second);
    return;
  }
  try {
    calibrated->use_calibration(saved.tensors);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", path.string(), error.what()),
                    "without that file `eval` and `generate` measure it again");
  }
}

}  // namespace propagator::run
