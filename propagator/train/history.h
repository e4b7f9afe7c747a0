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
// From its text. A line that a crash cut short is passed over; DataError names
// `name` and a line that says what none of ours does.
History history_of(const std::string& text, const std::string& name);

}  // namespace propagator::train
