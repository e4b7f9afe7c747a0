#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

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
// From metrics.jsonl; empty if there is none.
History read_history(const std::filesystem::path& metrics);
// From its text. A line that a crash cut short, or that does not say its step,
// is passed over; what should be a number and is none is NaN.
History history_of(const std::string& text);

}  // namespace propagator::train
