#pragma once

#include <map>

#include "propagator/report/report.h"

namespace propagator::train {

// The metrics of a run, read back for its curves.
struct History {
  // A resumed run may have other terms, so each has steps of its own.
  struct Term {
    std::vector<double> step, value;
  };
  struct Curves {
    std::vector<double> step, loss, rate;
    std::map<std::string, Term> terms;
  };
  Curves train, validation;

  bool empty() const { return train.step.empty(); }
};
// From metrics.jsonl; empty if there is none. A line that a crash cut short is
// passed over.
History read_history(const fs::path& metrics);

// Where the learning rate jumps, or has its peak if it moves all the time; and
// the best validation.
std::vector<report::Event> events_of(const History& history);

// Figures loss, loss-terms and learning-rate.
void draw_history(const History& history, report::Report& report);

}  // namespace propagator::train
