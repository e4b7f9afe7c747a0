#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>

#include "propagator/core/error.h"
#include "propagator/core/files.h"
#include "propagator/core/ranks.h"
#include "propagator/train/trainer.h"

// What a checkpoint holds of a training, and how one goes on from it.

namespace propagator::train {
namespace {

// In front of the names, in a checkpoint, of the tensors of the task's state,
// of what is learned beside the model and of a fine-tuning. Those of a method
// over all cases have its name there.
constexpr std::string_view kTask = "task.";
constexpr std::string_view kLearned = "learned.";
constexpr std::string_view kTuning = "tuning.";

// Takes the tensors whose names begin so out of `all`.
NamedTensors take(NamedTensors& all, std::string_view prefix) {
  NamedTensors taken;
  std::erase_if(all, [&](const auto& entry) {
    if (!entry.first.starts_with(prefix)) return false;
    taken[entry.first.substr(prefix.size())] = entry.second;
    return true;
  });
  return taken;
}

// Copies of tensors on the host, for training to go on beside the writing.
void put(NamedTensors& all, std::string_view prefix,
         const NamedTensors& tensors) {
  for (const auto& [name, value] : tensors) {
    all[fmt::format("{}{}", prefix, name)] =
        value.to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
  }
}

// "lbfgs."
std::string prefix_of(OptimizerKind kind) {
  return std::string(config::name_of(kind)) + ".";
}

}  // namespace

void Trainer::restore(const Checkpoint& checkpoint) {
  const torch::NoGradGuard no_grad;
  auto weights = checkpoint.model;
  best_ = checkpoint.best;
  auto learned = task_.learned();
  for (auto& [name, value] : learned) {
    // Older programs had it among the model's.
    best_.erase(name);
    const auto found = weights.extract(name);
    if (!found.empty()) value.copy_(found.mapped());
  }
  set_parameters(*model_, weights, "model.safetensors");
  const auto& state = checkpoint.state;
  try {
    step_ = state.at("step");
    auto moments = checkpoint.optimizer;
    const auto of_method = take(moments, prefix_of(options_.optimizer.kind));
    if (full_step_ && !of_method.empty()) full_step_->restore(of_method);
    for (const auto& [name, value] : take(moments, kLearned)) {
      const auto found = learned.find(name);
      if (found != learned.end()) found->second.copy_(value);
    }
    const auto changes = take(moments, kTuning);
    if (tuning_ != nullptr) {
      tuning_->restore(changes, checkpoint.adapter);
      best_adapter_ = checkpoint.adapter.tensors;
    }
    const auto made = take(moments, kTask);
    if (!made.empty()) task_.restore(made);
    stepper_.optimizer().restore(moments, state.at("optimizer_steps"));
    best_step_ = state.at("best").at("step");
    best_value_ = state.at("best").at("value").is_null()
                      ? std::numeric_limits<double>::infinity()
                      : state.at("best").at("value").get<double>();
    validations_without_gain_ = state.at("validations_without_gain");
    seconds_before_ = state.at("seconds");
    if (const auto stage = state.find("stage"); stage != state.end()) {
      stage_ = {stage->at("step"), stage->at("full_from"), stage->at("seconds"),
                stage->at("full_seconds"), stage->at("first")};
    }
    spent_ = is_spent();
    trained_by_ = train::trained_by(state);
  } catch (const nlohmann::json::exception&) {
    throw DataError(
        "state.json is damaged: it lacks what a training needs to go on");
  }
  saved_step_ = step_;
}

void Trainer::save() {
  if (ranks().is_first()) start_saving();
  saved_step_ = step_;
  since_saved_.start();
}

void Trainer::start_saving() {
  Checkpoint checkpoint;
  checkpoint.model = copy_parameters(*model_);
  checkpoint.best = best_.empty() ? checkpoint.model : best_;
  put(checkpoint.optimizer, "", stepper_.optimizer().state());
  if (full_step_) {
    put(checkpoint.optimizer, prefix_of(options_.optimizer.kind),
        full_step_->state());
  }
  put(checkpoint.optimizer, kTask, task_.state());
  put(checkpoint.optimizer, kLearned, task_.learned());
  if (tuning_ != nullptr) {
    put(checkpoint.optimizer, kTuning, tuning_->state());
    checkpoint.adapter = {
        best_adapter_.empty() ? tuning_->adapter() : best_adapter_,
        tuning_->metadata()};
  }
  checkpoint.config = config_;
  const bool has_best = std::isfinite(best_value_);
  checkpoint.state = {
      {"step", step_},
      {"epoch", epoch()},
      {"total_steps", total_steps_},
      {"optimizer_steps", stepper_.optimizer().steps()},
      {"best",
       {{"step", best_step_},
        {"value", has_best ? nlohmann::json(best_value_) : nullptr}}},
      {"validations_without_gain", validations_without_gain_},
      {"seconds", seconds()},
      {"stage",
       {{"step", stage_.step},
        {"full_from", stage_.full_from},
        {"seconds", stage_.seconds},
        {"full_seconds", stage_.full_seconds},
        {"first", stage_.first}}},
      {kTrainedBy, trained_by_}};
  finish_saving();
  saving_ = std::async(
      std::launch::async,
      [checkpoint = std::move(checkpoint), folder = run_->checkpoints(),
       metrics = run_->metrics(), step = step_,
       keep = static_cast<size_t>(options_.keep_checkpoints)] {
        flush_to_disk(metrics);  // a resumed run keeps the lines so far
        save_checkpoint(checkpoint_path(folder, step), checkpoint);
        const auto all = list_checkpoints(folder);
        for (size_t n = 0; n + keep < all.size(); ++n) {
          remove_atomically(all[n]);
        }
      });
}

}  // namespace propagator::train
