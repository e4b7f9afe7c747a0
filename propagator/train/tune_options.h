#pragma once

#include <string>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/core/unused_option.h"

namespace propagator::train {

enum class TuneMethod { kFull, kLastLayer, kLora, kAdapters, kPrefix };

// Fine-tuning: from whose weights a training begins, and what of the model it
// changes. The parameters that are trained are those of the method and those
// that `train` names, less those that `freeze` names.
struct TuneOptions {
  std::string from;
  TuneMethod method = TuneMethod::kFull;
  std::vector<std::string> train, freeze;
  std::vector<std::string> targets = {"*"};
  int64_t rank = 8;
  double alpha = 16;
  int64_t width = 16;
  int64_t tokens = 8;

  void describe(config::Schema& schema);
  std::vector<config::UnusedOption> unused_options() const;

  bool active() const { return !from.empty(); }
};

}  // namespace propagator::train

namespace propagator::config {

template <>
struct Names<train::TuneMethod> {
  using enum train::TuneMethod;
  static constexpr std::pair<train::TuneMethod, const char*> all[] = {
      {kFull, "full"},
      {kLastLayer, "last_layer"},
      {kLora, "lora"},
      {kAdapters, "adapters"},
      {kPrefix, "prefix"}};
};

}  // namespace propagator::config
