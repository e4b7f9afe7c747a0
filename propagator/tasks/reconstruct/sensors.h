#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "propagator/pde/text/problem.h"
#include "propagator/tasks/reconstruct/reconstruct_options.h"
#include "propagator/tasks/solve/test_grid.h"

namespace propagator::tasks {

// Readings at points of a problem's domain, in float64 on the CPU. A field
// that was not read at a point is NaN there.
struct Sensors {
  torch::Tensor points;    // (M, D)
  torch::Tensor readings;  // (M, F)

  int64_t count() const { return points.size(0); }
  // Rows by their numbers.
  Sensors rows(const std::vector<int64_t>& numbers) const;
};

// Those that train, and those that validate; the latter may be none. `noise`
// (F): the standard deviation of what was added to them; undefined: nothing.
struct SensorSplit {
  Sensors training, held_out;
  torch::Tensor noise = {};
};

// Places outside of an interval by no more than this share of it are at its
// end: numbers that were rounded, as to single precision.
constexpr double kRounding = 1e-6;

// Moves rounded places to the ends of the domain. DataError that names the file
// if one is outside of it, or a time before its start.
void expect_inside(const pde::Problem& problem, const torch::Tensor& points,
                   const std::string& path);
// Of sensors in a file those that are used, some of them held out. A warning
// says where it has fewer than `count`.
SensorSplit divide(const Sensors& all, const std::string& path,
                   const SensorOptions& options, int64_t seed);
// Readings (M, F) of fields, NaN in place of those that are not read.
torch::Tensor measured_only(const torch::Tensor& fields,
                            const std::vector<int64_t>& measured);
// Adds normal numbers, in units of each field's own spread.
SensorSplit with_noise(SensorSplit sensors, double noise, int64_t seed);

// Readings of these fields in a file, split by the seed; in a .csv an empty
// cell is a reading that is not there. DataError if the file has none of them,
// or not one that the options name, or says what cannot be: a point outside the
// domain, a number that is infinite.
SensorSplit read_readings(const pde::Problem& problem,
                          const SensorOptions& options,
                          const std::vector<int64_t>& measured, int64_t seed);

// Fields on a grid in a file, in a layout of data/gridded.h. DataError unless
// it is inside the domain; a warning says how far it does not cover that.
struct GriddedFields {
  TestGrid grid;
  torch::Tensor fields;  // (N, F)
};
GriddedFields read_gridded_fields(const std::filesystem::path& path,
                                  const pde::Problem& problem);
// The middles of `count` equal parts of 0 … size - 1.
torch::Tensor evenly_spread(int64_t count, int64_t size);
// Some of its times, evenly spread; 0: all.
GriddedFields snapshots_of(const GriddedFields& all, int64_t time,
                           int64_t count);

// Sensors at nodes of the grid.
SensorSplit sensors_on_grid(const GriddedFields& truth,
                            const SensorOptions& options,
                            const std::vector<int64_t>& measured, int64_t seed);
// Sensors anywhere in the domain, reading the problem's exact solution, or a
// numerical one where it has none. NumericalError if there is none.
SensorSplit sensors_of_solution(const pde::Problem& problem,
                                const SensorOptions& options,
                                const std::vector<int64_t>& measured,
                                int64_t seed);
// Sensors at the places in a file, reading the truth on a grid between its
// nodes, or where there is none the problem's solution. DataError if one is
// outside of the domain or the grid.
SensorSplit sensors_at_places(const pde::Problem& problem,
                              const std::optional<GriddedFields>& truth,
                              const SensorOptions& options,
                              const std::vector<int64_t>& measured,
                              int64_t seed);
// Of the problem's solution at points (M, D): (M, F). NumericalError if there
// is none.
torch::Tensor solution_at(const pde::Problem& problem,
                          const torch::Tensor& points);

}  // namespace propagator::tasks
