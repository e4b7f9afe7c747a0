#pragma once

#include "propagator/data/tensor_file.h"
#include "tasks/training.h"
#include "testing.h"

namespace propagator::tasks {

class FieldWaves : public ::testing::Test {
 protected:
  // Waves that travel, each with its speed, which may be among the numbers.
  std::string waves(bool speeds, int64_t cases = 20) {
    const auto path = folder_ / (speeds ? "told.h5" : "waves.h5");
    const auto at = torch::arange(16, torch::kFloat64) / 16;
    const auto t = torch::arange(8, torch::kFloat64);
    const auto speed = 0.12 * torch::arange(cases, torch::kFloat64) /
                       static_cast<double>(cases);
    const auto phase = testing::random({cases, 1, 1}, "phase");
    const auto place = at.view({1, 1, -1}) -
                       speed.view({-1, 1, 1}) * t.view({1, -1, 1}) + phase;
    data::Tensors tensors{{"u", torch::sin(2 * M_PI * place)}};
    if (speeds) tensors["speed"] = speed;
    data::save_tensors(path, {tensors, ""});
    return path.string();
  }
  static run::Experiment experiment(const std::string& file,
                                    const std::string& more = "") {
    return run::Experiment(config::Document::from_text(
        "task: forecast\nprecision: fp64\ndata: {given: 2, file: " + file +
            "}\ntrain: {batch: 8, max_steps: 6, checkpoint_every: 1, "
            "keep_checkpoints: 9}\n" +
            more,
        "test"));
  }
  testing::TemporaryFolder folder_;
};

inline const char* const kSmall =
    "model: {name: fno, width: 6, layers: 2, modes: 3}\n";

}  // namespace propagator::tasks
