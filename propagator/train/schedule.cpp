#include "propagator/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace propagator::train {
namespace {

struct Rate {
  int64_t from_epoch;
  double lr;
};

// Document 000, equation 28 and, for challenge-2, equation 29.
constexpr Rate kDocumentTable[] = {{1, 0},    {2, 1e-5},  {3, 1e-4}, {4, 5e-4},
                                   {5, 1e-3}, {31, 5e-4}, {41, 1e-4}};
constexpr Rate kDocumentLongTable[] = {{1, 0},     {2, 1e-5},  {3, 1e-4},
                                       {4, 5e-4},  {41, 1e-4}, {101, 5e-5},
                                       {201, 1e-5}};

double from_table(std::span<const Rate> table, int64_t epoch) {
  double lr = 0;
  for (const auto& rate : table) {
    if (epoch >= rate.from_epoch) lr = rate.lr;
  }
  return lr;
}

}  // namespace

void ScheduleOptions::describe(config::Schema& s) {
  s.field("kind", kind, {.help = "of the learning rate over time"});
  s.field(
      "lr", lr,
      {.help = "learning rate of constant and cosine", .min = 0, .max = 10});
  s.field("lr_final", lr_final,
          {.help = "where cosine ends", .min = 0, .max = 10});
  s.field("warmup", warmup,
          {.help = "linear start", .unit = "steps", .min = 0});
}

double learning_rate(const ScheduleOptions& o, int64_t step, int64_t epoch,
                     int64_t total_steps) {
  if (o.kind == ScheduleKind::kDocument) {
    return from_table(kDocumentTable, epoch);
  }
  if (o.kind == ScheduleKind::kDocumentLong) {
    return from_table(kDocumentLongTable, epoch);
  }
  if (step < o.warmup) {
    return o.lr * static_cast<double>(step + 1) / static_cast<double>(o.warmup);
  }
  if (o.kind == ScheduleKind::kConstant) return o.lr;
  const int64_t span = std::max<int64_t>(total_steps - o.warmup, 1);
  const double share = std::min(
      1.0, static_cast<double>(step - o.warmup) / static_cast<double>(span));
  return o.lr_final +
         0.5 * (o.lr - o.lr_final) * (1 + std::cos(std::numbers::pi * share));
}

}  // namespace propagator::train
