#pragma once

#include <filesystem>
#include <vector>

#include "propagator/run/test.h"

namespace propagator::run {

// Runs of one task, trained apart, used as one: the first has the data and the
// settings of the test.
class Ensemble {
 public:
  // Opens the others as the first was. UsageError if they do not fit together,
  // or if one was trained on what the first is tested on: runs of a data file
  // with other seeds were.
  Ensemble(const Run& first, const std::vector<std::filesystem::path>& others,
           const OpenOptions& options);
  ~Ensemble();
  Ensemble(const Ensemble&) = delete;
  Ensemble& operator=(const Ensemble&) = delete;

  torch::nn::Module& model() const { return *model_; }
  // Names of all runs.
  const std::vector<std::string>& names() const { return names_; }
  // As of one run; `members` in the record has the names.
  TestResult test(data::Split split) const;

 private:
  const Run& first_;
  std::vector<Run> others_;
  std::vector<std::string> names_;
  std::shared_ptr<torch::nn::Module> model_;
};

}  // namespace propagator::run
