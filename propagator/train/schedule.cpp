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

// The heat-plate paper, equation 28 and, for challenge-2, equation 29.
constexpr Rate kPublishedTable[] = {{1, 0},    {2, 1e-5},  {3, 1e-4}, {4, 5e-4},
                                    {5, 1e-3}, {31, 5e-4}, {41, 1e-4}};
constexpr Rate kPublishedLongTable[] = {{1, 0},     {2, 1e-5},  {3, 1e-4},
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
  s.field("kind", kind,
          {.help = "how the learning rate changes in training; published and "
                   "published-long are the heat-plate paper's tables by "
                   "epoch"});
  s.field("lr", lr,
          {.help = "learning rate of constant, and the first one of cosine",
           .min = 0,
           .max = 10});
  s.field("lr_final", lr_final,
          {.help = "learning rate that cosine ends with", .min = 0, .max = 10});
  s.field("warmup", warmup,
          {.help = "steps in which the learning rate rises linearly",
           .unit = "steps",
           .min = 0});
}

double learning_rate(const ScheduleOptions& o, int64_t step, int64_t epoch,
                     int64_t total_steps) {
  if (o.kind == ScheduleKind::kPublished) {
    return from_table(kPublishedTable, epoch);
  }
  if (o.kind == ScheduleKind::kPublishedLong) {
    return from_table(kPublishedLongTable, epoch);
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
