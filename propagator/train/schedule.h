#pragma once

#include "propagator/core/config.h"

namespace propagator::train {

enum class ScheduleKind { kConstant, kCosine, kPublished, kPublishedLong };

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kCosine;
  double lr = 1e-3;
  double lr_final = 1e-6;
  int64_t warmup = 0;

  void describe(config::Schema& schema);
  // A table by epoch has none but its own.
  int64_t warmup_steps() const {
    const bool by_table = kind == ScheduleKind::kPublished ||
                          kind == ScheduleKind::kPublishedLong;
    return by_table ? 0 : warmup;
  }
};

// The learning rate of step `step` (from 0) in epoch `epoch` (from 1).
//   constant: lr after a linear warm-up;
//   cosine: from lr down to lr_final at the last step, after the warm-up;
//   published, published-long: the tables by epoch of the heat-plate paper, for
//   100
//     epochs (base, challenge-1) and 300 epochs (challenge-2).
double learning_rate(const ScheduleOptions& options, int64_t step,
                     int64_t epoch, int64_t total_steps);

}  // namespace propagator::train

namespace propagator::config {

template <>
struct Names<train::ScheduleKind> {
  using enum train::ScheduleKind;
  static constexpr std::pair<train::ScheduleKind, const char*> all[] = {
      {kConstant, "constant"},
      {kCosine, "cosine"},
      {kPublished, "published"},
      {kPublishedLong, "published-long"}};
  static constexpr std::pair<const char*, const char*> former[] = {
      {"document", "published"}, {"document-long", "published-long"}};
};

}  // namespace propagator::config
