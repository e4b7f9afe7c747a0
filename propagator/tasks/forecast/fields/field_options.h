#pragma once

#include <string>
#include <vector>

#include "propagator/data/fields/field_source.h"
#include "propagator/data/storage.h"
#include "propagator/tasks/forecast/fields/field_symmetry.h"

// What a configuration chooses for a forecast of fields.

namespace propagator::tasks {

// In the place of names.
inline constexpr const char* kAllOfThem = "all";
inline constexpr const char* kNoneOfThem = "none";

struct FieldDataOptions {
  std::string file, simulator;
  std::vector<std::string> simulation;
  data::FieldChoices choices;
  std::vector<std::string> parameters = {kAllOfThem};
  int64_t given = 5;
  double validation = 0.2, test = 0.1;  // shares of all cases
  std::string test_file = "";           // in place of such a share
  std::vector<std::string> test_simulation = {};
  FieldSymmetry symmetry = FieldSymmetry::kNone;
  data::Storage storage = data::Storage::kAuto;

  void describe(config::Schema& schema);
  // The names of what the model is told of each case.
  std::vector<std::string> told() const;
  // The same of constant inputs, once the file has been looked into.
  std::vector<std::string> constants() const;
  data::SplitShares shares() const;
};

// What a network sees as it learns to go on: true frames, or its own.
enum class TrainedOn { kTruth, kOwn };

struct FieldLossOptions {
  int64_t frames = 0;
  TrainedOn inputs = TrainedOn::kTruth;
  double noise = 0;

  void describe(config::Schema& schema);
};

struct FieldEvalOptions {
  int64_t batch = 16;
  int64_t cases = 0;
  int64_t steps = 0;
  std::vector<std::string> conserved = {};
  bool classical = true;

  void describe(config::Schema& schema);
};

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::TrainedOn> {
  using enum tasks::TrainedOn;
  static constexpr std::pair<tasks::TrainedOn, const char*> all[] = {
      {kTruth, "truth"}, {kOwn, "own"}};
};

}  // namespace propagator::config
