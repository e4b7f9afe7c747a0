#pragma once

#include <string>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/core/unused_option.h"

namespace propagator::train {

enum class TuneMethod { kFull, kLastLayer, kLora, kAdapters, kPrefix };
// Whose are the units in which a model sees and gives its numbers: those of the
// data that the base was trained with, or of those it is trained with now.
enum class TuneUnits { kBase, kData };

// Fine-tuning: from whose weights a training begins, and what of the model it
// changes. The parameters that are trained are those of the method and those
// that `train` names, less those that `freeze` names.
struct TuneOptions {
  std::string from;
  TuneMethod method = TuneMethod::kFull;
  TuneUnits units = TuneUnits::kBase;
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

template <>
struct Names<train::TuneUnits> {
  using enum train::TuneUnits;
  static constexpr std::pair<train::TuneUnits, const char*> all[] = {
      {kBase, "base"}, {kData, "data"}};
};

}  // namespace propagator::config
