#pragma once

#include <string>
#include <vector>

#include "propagator/core/config.h"

namespace propagator::tasks {

// Where sensors stand that are drawn from a known field.
enum class Placement { kRandom, kGrid, kGiven };

// What is read, where, and how well.
struct SensorOptions {
  std::string file = {};
  int64_t count = 0;
  Placement placement = Placement::kRandom;
  std::string positions = {};
  std::vector<std::string> fields = {};
  double noise = 0;
  double held_out = 0.1;

  void describe(config::Schema& schema);
  // ConfigError if fields contradict one another.
  void validate() const;
};

// The whole field, where it is known on a grid.
struct TruthOptions {
  std::string file = {};
  std::string simulator = {};
  std::vector<std::string> simulation = {};
  int64_t snapshots = 0;

  void describe(config::Schema& schema);
};

// The networks of functions that are sought.
struct FunctionOptions {
  int64_t width = 16;
  int64_t layers = 2;

  void describe(config::Schema& schema);
};

// mse: the mean square of what is off, in units of each field's spread;
// heteroscedastic: the likelihood of a normal number whose variance the network
// says for each point; faithful: as mse, while a small network of its own
// learns that variance from what is off, and its level from held-out readings,
// so that being unsure never excuses an error.
enum class ReadingLoss { kMse, kHeteroscedastic, kFaithful };

struct ReadingLossOptions {
  double weight = 100;
  ReadingLoss kind = ReadingLoss::kMse;

  void describe(config::Schema& schema);
};

}  // namespace propagator::tasks

namespace propagator::config {

template <>
struct Names<tasks::Placement> {
  using enum tasks::Placement;
  static constexpr std::pair<tasks::Placement, const char*> all[] = {
      {kRandom, "random"}, {kGrid, "grid"}, {kGiven, "given"}};
};

template <>
struct Names<tasks::ReadingLoss> {
  using enum tasks::ReadingLoss;
  static constexpr std::pair<tasks::ReadingLoss, const char*> all[] = {
      {kMse, "mse"},
      {kHeteroscedastic, "heteroscedastic"},
      {kFaithful, "faithful"}};
};

}  // namespace propagator::config
