#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "propagator/report/figure.h"

namespace propagator::tasks {

// Frames worth a panel: the first forecast one, one in the middle, the last.
std::vector<int64_t> telling_frames(int64_t given, int64_t frames);

// Truth, forecast and what is between them, three rows of panels a case. The
// two are on the truth's scale.
//
// Of fields over a plane, (N, T, R, C), those cases at those frames:
report::HeatMaps maps_over_time(const report::FieldSeries& series,
                                const std::vector<int64_t>& cases,
                                const std::vector<int64_t>& frames);
// Of fields along a line, (N, 1, T, X): space to the right, time downwards, the
// cases beside one another.
report::HeatMaps maps_of_lines(const report::FieldSeries& series);
// Of one case of a field in space at one frame, (S, R, C): planes through it,
// beside one another, each with its title.
struct Slices {
  std::string quantity = "";
  report::Axis x = {}, y = {};
  std::vector<std::string> titles = {};   // S
  torch::Tensor truth = {}, answer = {};  // (S, R, C)
};
report::HeatMaps maps_of_slices(const Slices& slices);

// What a forecast is told at each node of some cases: on a plane, (N, R, C),
// maps beside one another; along a line, (N, X) at places `at`, curves.
struct ConstantInput {
  std::string quantity = "";
  report::Axis x = {}, y = {};
  std::vector<std::string> cases = {};  // N
  torch::Tensor values = {};
  std::vector<double> at = {};  // X
};
report::Figure figure_of(const ConstantInput& input);

// Energy at each frequency from 1 on, of truth and forecast (N, T, nodes…) at
// some frames, the mean of the cases, with the three bands of frequencies.
report::LinePlot spectra_plot(const std::string& quantity,
                              const torch::Tensor& truth,
                              const torch::Tensor& answer,
                              const std::vector<int64_t>& frames);

// How far conserved sums move, forecast and truth, by a test's numbers.
report::LinePlot drift_plot(const nlohmann::json& numbers);

// A figure's file can have any channel's name in it: what a file's name should
// not have becomes a dash.
std::string as_file_name(const std::string& text);

}  // namespace propagator::tasks
