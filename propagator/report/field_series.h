#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

namespace propagator::report {

// An axis of a figure. Over a field, row or column 0 lies at `first` and the
// last one at `last`.
struct Axis {
  std::string label = "";  // with its unit: "x (m)"
  double first = 0;
  double last = 0;
  bool log = false;
  double ticks = 0;  // distance between them; 0: as fits
};

// Where and when a field was read.
struct Sensors {
  std::vector<double> x = {}, y = {};  // on the axes of the field
  std::vector<double> times = {};
};

// A place in a picture, in nodes: 0 is the middle of the first one.
struct NodePlace {
  double column, row;
};

// A field that changes in time, as it is and as it was computed, for a few
// cases: what panels, the animation, the explorer and ParaView show.
struct FieldSeries {
  // "temperature"; empty where cases are quantities themselves, as u and v.
  std::string quantity = "";
  std::string unit = "";  // "K"; empty for a number without one
  std::string time_label = "frame";
  std::vector<double> times = {};       // T
  std::vector<std::string> cases = {};  // N names
  Axis x = {}, y = {};
  torch::Tensor truth = {};           // (N, T, R, C); undefined: not known
  torch::Tensor prediction = {};      // (N, T, R, C)
  std::vector<Sensors> sensors = {};  // one a case, or none of all

  // "temperature (K)"
  std::string label() const {
    return unit.empty() ? quantity : quantity + " (" + unit + ")";
  }
  // "temperature (K), plate 1"
  std::string title(int64_t index) const {
    const auto& name = cases[static_cast<size_t>(index)];
    return quantity.empty() ? name : label() + ", " + name;
  }
  // Where a case was read near each frame: sensors that are nearer to it in
  // time than to another frame, and no further than half a step; with one frame
  // all. Of many at most kMostSensors, evenly from first to last.
  std::vector<std::vector<NodePlace>> sensors_near(int64_t index) const;
  static constexpr size_t kMostSensors = 200;  // more would hide the field
  // The same with at most `most` frames, first and last included.
  FieldSeries thinned(int64_t most) const;
};

// Arrays on a regular grid of one to three variables, at several times: what
// ParaView shows of any answer.
struct GridSeries {
  std::vector<double> times = {};  // T
  std::vector<Axis> axes = {};     // x, y, z, as many as there are
  struct Array {
    std::string name;      // "u", "u_error"
    torch::Tensor values;  // (T, Z, Y, X), or as many of them as there are
  };
  std::vector<Array> arrays = {};
};

// Smallest and largest value of truth and prediction together in one case, and
// the largest |error|, 0 without a truth. A range without extent is widened.
struct FieldRange {
  double low, high, error;
};
FieldRange range_of(const FieldSeries& series, int64_t index);

}  // namespace propagator::report
