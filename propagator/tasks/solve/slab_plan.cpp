#include "propagator/tasks/solve/slab_plan.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "propagator/tasks/solve/saved_state.h"

namespace propagator::tasks {
namespace {

constexpr const char* kState = "slab";  // in a checkpoint

// A last slab that is shorter by rounding alone is none.
constexpr double kRounding = 1e-9;

}  // namespace

SlabPlan::SlabPlan(const SlabOptions& options, const pde::Interval& time)
    : options_(options),
      time_(time),
      slab_(time),
      length_((time.high - time.low) / static_cast<double>(options.first)) {
  begin(time.low, /*done=*/0);
}

int64_t SlabPlan::left() const {
  return std::llround(
      std::ceil((time_.high - slab_.low) / length_ - kRounding));
}

bool SlabPlan::may_cut() const {
  return number_ - 1 + 2 * left() <= options_.most;
}

void SlabPlan::begin(double low, double done) {
  slab_.low = low;
  const bool last = left() <= 1;
  slab_.high = last ? time_.high : low + length_;
  allowance_ = (1 - done) / static_cast<double>(std::max<int64_t>(left(), 1));
}

SlabPlan::Next SlabPlan::after(const train::Standing& standing) {
  if (scale_ == 0) scale_ = standing.first;
  const bool solved = standing.best <= options_.tolerance * scale_;
  // One as long as a solved one deserves more patience.
  const double trial = std::max(options_.trial, after_solved_ / 2);
  const bool tried = standing.stopped || standing.full >= trial;
  if (tried && !solved && may_cut()) {
    length_ /= 2;
    after_solved_ = 0;
    ++attempts_;
    begin(slab_.low, standing.done);
    return Next::kCut;
  }
  const bool over = standing.stopped || standing.stage >= allowance_;
  if (!over || left() <= 1) return Next::kGoOn;
  ++number_;
  ++attempts_;
  begin(slab_.high, standing.done);
  after_solved_ = solved ? allowance_ : 0;
  return Next::kFinish;
}

train::NamedTensors SlabPlan::state() const {
  if (empty()) return {};
  return {{kState,
           torch::tensor({slab_.low, slab_.high, length_, allowance_, scale_,
                          after_solved_, static_cast<double>(number_),
                          static_cast<double>(attempts_)},
                         torch::kFloat64)}};
}

void SlabPlan::restore(const train::NamedTensors& saved) {
  const auto now = state();
  if (now.empty()) return;
  restore_state(now, saved);
  const double* number = now.at(kState).data_ptr<double>();
  slab_ = {number[0], number[1]};
  length_ = number[2], allowance_ = number[3], scale_ = number[4];
  after_solved_ = number[5];
  number_ = std::llround(number[6]), attempts_ = std::llround(number[7]);
}

SlabbedTime slabbed_time(const pde::Problem& problem) {
  const int64_t time = problem.time();
  if (time < 0) return {.why_not = "the problem has no time"};
  const auto variable = static_cast<size_t>(time);
  pde::SlabTime slabs{time, problem.domain[variable],
                      std::vector<int64_t>(problem.symbols.fields.size(), 0)};
  for (const auto& condition : problem.conditions) {
    if (condition.variable != time) continue;
    if (condition.is_periodic()) return {.why_not = "time is periodic"};
    if (condition.at != slabs.interval.low) {
      return {.why_not = "a condition holds at the last time"};
    }
    for (const auto& derivative : condition.derivatives()) {
      auto& order = slabs.orders[static_cast<size_t>(derivative.field)];
      order = std::max(order, derivative.orders[variable] + 1);
    }
  }
  if (std::ranges::max(slabs.orders) == 0) {
    return {.why_not = "no condition holds at the first time"};
  }
  return {.time = std::move(slabs)};
}

}  // namespace propagator::tasks
