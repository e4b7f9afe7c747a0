#pragma once

#include <optional>

#include "propagator/pde/residual/slab_chain.h"
#include "propagator/tasks/solve/solve_options.h"
#include "propagator/train/trainable.h"

namespace propagator::tasks {

// Which slab of time is in training, and when another one begins. A problem
// begins as one slab. Where its loss has not fallen far after a trial, the slab
// is cut in half and begun anew; the others are as long then. The time that is
// left is shared by the slabs that are left.
class SlabPlan {
 public:
  enum class Next { kGoOn, kCut, kFinish };

  SlabPlan() = default;
  SlabPlan(const SlabOptions& options, const pde::Interval& time);

  bool empty() const { return options_.most <= 1; }
  const pde::Interval& slab() const { return slab_; }
  bool is_whole() const {
    return slab_.low == time_.low && slab_.high == time_.high;
  }
  int64_t number() const { return number_; }      // of the slab, from 1
  int64_t attempts() const { return attempts_; }  // at all slabs

  // What comes after a validation; the slab is then the next one's.
  Next after(const train::Standing& standing);

  train::NamedTensors state() const;
  void restore(const train::NamedTensors& saved);

 private:
  int64_t left() const;  // slabs, with this one
  bool may_cut() const;
  void begin(double low, double done);

  SlabOptions options_;
  pde::Interval time_, slab_;
  double length_ = 1;
  double allowance_ = 1;     // of all training, for this slab
  double scale_ = 0;         // of the loss, before any training
  double after_solved_ = 0;  // the allowance, if the last one was solved
  int64_t number_ = 1, attempts_ = 1;
};

// How a problem's fields go on from slab to slab. What it says against slabs
// is in `why_not`.
struct SlabbedTime {
  std::optional<pde::SlabTime> time = {};
  std::string why_not = {};
};
SlabbedTime slabbed_time(const pde::Problem& problem);

}  // namespace propagator::tasks
