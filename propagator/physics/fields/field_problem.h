#pragma once

#include <torch/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "propagator/core/config.h"
#include "propagator/physics/fields/resampled.h"

namespace propagator::physics {

// What a field does at the ends of an axis: it comes back to itself, it has
// fixed values or no flux there, or waves leave.
enum class Boundary { kPeriodic, kWall, kOpen };

// One axis of a grid: its points, float64 on the CPU, rising.
struct FieldAxis {
  std::string name;
  torch::Tensor at;  // (n)
  Boundary boundary;
};

// What the numbers of a set of fields (N, T, space…, C) are.
struct FieldLayout {
  torch::Tensor times;  // (T), float64 on the CPU
  std::vector<FieldAxis> axes;
  std::vector<std::string> channels;
  std::vector<std::string> parameters = {};  // of each case
  // Numbers at each node that do not change in time: inputs of each case.
  std::vector<std::string> constants = {};
};

// Which cases to compute, and where. Case `first + i` depends on the seed and
// on first + i alone.
struct CaseRange {
  int64_t seed = 0, first = 0, count = 1;
  torch::TensorOptions where = torch::kFloat64;  // device and type
  // Told of each frame of all these cases that is done.
  std::function<void()> frame_done = [] {};

  CaseRange one() const;  // the first of them, in float64, told to nobody
};

struct FieldCases {
  torch::Tensor values;           // (N, T, space…, C), as the range says
  torch::Tensor parameters = {};  // (N, P), float64 on the CPU
};

// How much is computed again to see what the numbers are worth.
enum class FieldCheck { kNone, kRefined, kFull };

// A family of initial-value problems: an equation, how its initial values are
// drawn, and a solver of many cases at once.
class FieldProblem {
 public:
  virtual ~FieldProblem() = default;
  // Its keys under `field.`, each declared once.
  virtual void describe(config::Schema& schema) = 0;
  // ConfigError if they contradict one another.
  virtual void validate() const = 0;
  virtual FieldLayout layout() const = 0;
  virtual FieldCases solve(const CaseRange& range) const = 0;
  // What the first case of those found is worth, as named numbers: laws that
  // hold exactly, and the difference from the same case computed otherwise.
  virtual std::map<std::string, double> assess(const CaseRange& range,
                                               const FieldCases& found,
                                               FieldCheck check) const = 0;
  // The frames that follow states (N, space…, C) of cases with these parameters
  // (N, P), a frame's time apart: (N, count, space…, C), in the states' type
  // and on their grid, which may be coarser or finer than that of the keys.
  // They may be infinite where it is too coarse. Undefined unless `continues`.
  virtual torch::Tensor continued(const torch::Tensor& /*states*/,
                                  const torch::Tensor& /*parameters*/,
                                  int64_t /*count*/) const {
    return {};
  }
  // Whether fields and parameters say how to go on.
  virtual bool continues() const { return false; }
  virtual FieldGrid grid() const { return FieldGrid::kPeriodic; }
  // Nodes along an axis that are computed for each that is kept.
  virtual int64_t computed_nodes() const { return 1; }
  // Channels whose sum over all nodes stays what it is.
  virtual std::vector<std::string> conserved() const { return {}; }
  // Cases that are computed together unless somebody says otherwise.
  virtual int64_t cases_at_once() const { return 16; }
};

// When frames are kept: `frames` times from 0 to `end`.
struct FieldTimes {
  int64_t frames;
  double end;

  void describe(config::Schema& schema);
  double step() const { return end / static_cast<double>(frames - 1); }
  torch::Tensor at() const;  // (T), float64
};

// Points of an axis of length `high - low`: n from the lower end on, one step
// apart, of which the last is a step before the upper end; the middles of n
// cells; or n with both ends.
torch::Tensor periodic_points(double low, double high, int64_t n);
torch::Tensor cell_centres(double low, double high, int64_t n);
torch::Tensor points_with_ends(double low, double high, int64_t n);

// Relative L2 of a, over all numbers, against b.
double relative_l2(const torch::Tensor& a, const torch::Tensor& b);
// Largest change of the sum over a case's cells, of one channel (N, T, …),
// over the sum of absolute values in the first frame.
double largest_drift(const torch::Tensor& channel);
// NumericalError, with the hint, unless all are finite.
void expect_finite(const torch::Tensor& values, double time,
                   const std::string& hint);
// ConfigError under `key` unless low <= high.
void expect_rising(const std::string& key, double low, double high);

}  // namespace propagator::physics

namespace propagator::config {

template <>
struct Names<physics::Boundary> {
  using enum physics::Boundary;
  static constexpr std::pair<physics::Boundary, const char*> all[] = {
      {kPeriodic, "periodic"}, {kWall, "wall"}, {kOpen, "open"}};
};

template <>
struct Names<physics::FieldCheck> {
  using enum physics::FieldCheck;
  static constexpr std::pair<physics::FieldCheck, const char*> all[] = {
      {kNone, "none"}, {kRefined, "refined"}, {kFull, "full"}};
};

}  // namespace propagator::config
