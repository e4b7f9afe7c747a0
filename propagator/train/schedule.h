#pragma once

#include "propagator/core/config.h"

namespace propagator::train {

enum class ScheduleKind { kConstant, kCosine, kDocument, kDocumentLong };

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kCosine;
  double lr = 1e-3;
  double lr_final = 1e-6;
  int64_t warmup = 0;

  void describe(config::Schema& schema);
  // The documents' tables have none but their own.
  int64_t warmup_steps() const {
    const bool by_table =
        kind == ScheduleKind::kDocument || kind == ScheduleKind::kDocumentLong;
    return by_table ? 0 : warmup;
  }
};

// The learning rate of step `step` (from 0) in epoch `epoch` (from 1).
//   constant: lr after a linear warm-up;
//   cosine: from lr down to lr_final at the last step, after the warm-up;
//   document, document-long: the tables by epoch of document 000, for 100
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
      {kDocument, "document"},
      {kDocumentLong, "document-long"}};
};

}  // namespace propagator::config
