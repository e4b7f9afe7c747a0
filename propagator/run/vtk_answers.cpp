#include "propagator/run/vtk_answers.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>

#include "propagator/core/error.h"
#include "propagator/report/vtk.h"

namespace propagator::run {
namespace {

namespace fs = std::filesystem;
using torch::Tensor;

constexpr size_t kMostAxes = 3;
// Places that differ by less than this share of their extent are one.
constexpr double kSamePlace = 1e-9;
// Steps of an even axis differ by no more than this share of one, as those of
// numbers that were written with six digits.
constexpr double kUneven = 1e-3;

Tensor flat(const Tensor& values) {
  return values.to(torch::kCPU).to(torch::kFloat64).flatten();
}

// The variables that are axes.
std::vector<data::Column> axes_of(const fs::path& path,
                                  std::vector<data::Column> variables) {
  if (variables.size() <= kMostAxes) return variables;
  const auto first = variables[0];
  std::erase_if(variables, [](const data::Column& variable) {
    const auto x = flat(variable.values);
    return torch::equal(x, x[0].expand_as(x));
  });
  if (variables.empty()) return {first};
  if (variables.size() <= kMostAxes) return variables;
  std::vector<std::string> names;
  for (const auto& variable : variables) names.push_back(variable.name);
  throw UsageError(
      fmt::format("{}: points vary in {}, more than {} axes", path.string(),
                  fmt::join(names, ", "), kMostAxes),
      "write one file for each time, or an .h5 or .npz file");
}

// The places of an axis, and which of them each point has.
struct Places {
  double first = 0, last = 0;
  int64_t count = 1;
  Tensor number;  // (N)
};

[[noreturn]] void fail_no_grid(const fs::path& path, const std::string& why) {
  throw UsageError(fmt::format("{}: {}", path.string(), why),
                   "name the output .vtp, which takes any points");
}

Places places_of(const fs::path& path, const data::Column& variable) {
  const auto x = flat(variable.values);
  const auto [sorted, order] = x.sort();
  const double first = sorted[0].item<double>();
  const double last = sorted[-1].item<double>();
  const auto next = sorted.diff() > kSamePlace * (last - first);
  const auto rank = torch::cat(
      {torch::zeros({1}, torch::kInt64), next.to(torch::kInt64).cumsum(0)});
  Places places{first, last, rank[-1].item<int64_t>() + 1, {}};
  places.number = torch::empty_like(rank).index_copy_(0, order, rank);
  const double step = (last - first) / static_cast<double>(std::max<int64_t>(
                                           1, places.count - 1));
  const auto off = (x - first - places.number * step).abs().max();
  if (off.item<double>() > kUneven * step) {
    fail_no_grid(
        path, fmt::format("places of {} are not evenly spaced", variable.name));
  }
  return places;
}

void write_grid(const fs::path& path, const std::vector<data::Column>& axes,
                const std::vector<data::Column>& answers) {
  report::GridSeries series{.times = {0}};
  auto node = torch::zeros({axes[0].values.numel()}, torch::kInt64);
  std::vector<int64_t> shape;
  int64_t nodes = 1;
  for (const auto& axis : axes) {
    const auto places = places_of(path, axis);
    series.axes.push_back({axis.name, places.first, places.last});
    // The first axis is the fastest.
    node += places.number * nodes;
    nodes *= places.count;
    shape.push_back(places.count);
  }
  const auto [sorted, order] = node.sort();
  if (nodes != node.size(0) || !torch::equal(sorted, torch::arange(nodes))) {
    fail_no_grid(path, fmt::format("{} points do not fill a grid of {} nodes",
                                   node.size(0), fmt::join(shape, " x ")));
  }
  std::vector<int64_t> frame{1};
  frame.insert(frame.end(), shape.rbegin(), shape.rend());
  for (const auto& [name, values] : answers) {
    series.arrays.push_back(
        {name, flat(values).index_select(0, order).view(frame)});
  }
  report::write_image(series, path);
}

}  // namespace

bool is_vtk(const fs::path& path) {
  return path.extension() == ".vti" || path.extension() == ".vtp";
}

void expect_points(const fs::path& path,
                   const std::vector<tasks::Surrogate::Port>& inputs,
                   const std::vector<tasks::Surrogate::Port>& outputs) {
  const auto is_number = [](const tasks::Surrogate::Port& port) {
    return port.shape == std::vector<int64_t>{-1};
  };
  // A model at points gives them back with its answers.
  const auto comes_back = [&](const tasks::Surrogate::Port& port) {
    return is_number(port) &&
           std::ranges::count(outputs, port.name,
                              &tasks::Surrogate::Port::name) > 0;
  };
  if (std::ranges::all_of(inputs, comes_back) &&
      std::ranges::all_of(outputs, is_number)) {
    return;
  }
  throw UsageError(
      fmt::format("{}: VTK files hold fields at points, as runs of solve and "
                  "reconstruct answer",
                  path.string()),
      "use an .h5 or .npz file; `propagator report RUN --paraview FOLDER` "
      "writes forecasts");
}

void write_vtk_answers(const fs::path& path,
                       const std::vector<data::Column>& variables,
                       const std::vector<data::Column>& answers) {
  const auto axes = axes_of(path, variables);
  if (path.extension() == ".vti") return write_grid(path, axes, answers);
  std::vector<Tensor> places;
  for (const auto& axis : axes) places.push_back(flat(axis.values));
  places.resize(kMostAxes, torch::zeros_like(flat(variables[0].values)));
  std::vector<report::GridSeries::Array> arrays;
  for (const auto& some : {variables, answers}) {
    for (const auto& [name, values] : some) {
      arrays.push_back({name, flat(values)});
    }
  }
  report::write_points(torch::stack(places, 1), arrays, path);
}

}  // namespace propagator::run
