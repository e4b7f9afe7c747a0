#include "propagator/data/wake_layout.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>

#include "propagator/core/error.h"

namespace propagator::data {
namespace {

using torch::Tensor;

constexpr const char* kTimes = "t";
constexpr const char* kVelocities = "U_star";
constexpr const char* kPressures = "p_star";
constexpr std::array kAxes = {"x", "y", "z"};
constexpr std::array kComponents = {"u", "v", "w"};
// Places of one column closer than this share of its length are the same.
constexpr double kSamePlace = 1e-6;

// The number of a name among those, or -1.
template <size_t Size>
int64_t number_among(const std::array<const char*, Size>& names,
                     const std::string& name) {
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? -1 : found - names.begin();
}

class WakeLayout {
 public:
  WakeLayout(const Tensors& table, const std::filesystem::path& path)
      : table_(table), path_(path) {
    points_ = array(kWakePoints);
    if (points_.dim() != 2 || points_.size(0) == 0 || points_.size(1) == 0 ||
        points_.size(1) > std::ssize(kAxes)) {
      fail(fmt::format("expected {} of N points by 1 to 3 places, got ({})",
                       kWakePoints, fmt::join(points_.sizes(), ", ")));
    }
    times_ = array(kTimes).flatten();
    if (times_.numel() == 0 ||
        (times_.numel() > 1 && !(times_.diff() > 0).all().item<bool>())) {
      fail("expected numbers of t that rise");
    }
    for (int64_t d = 0; d < dimensions(); ++d) find_places(d);
    find_order();
  }

  int64_t dimensions() const { return points_.size(1); }

  // Of a variable: its axis of the grid, where time is the last one.
  int64_t axis_of(const std::string& variable) const {
    if (variable == kTimes) return dimensions();
    const int64_t axis = number_among(kAxes, variable);
    if (axis >= 0 && axis < dimensions()) return axis;
    fail(fmt::format(
        "{} has no {}: a file with {} has {} and t", kWakePoints, variable,
        kWakePoints,
        fmt::join(kAxes.begin(), kAxes.begin() + dimensions(), ", ")));
  }
  Tensor along(int64_t axis) const {
    return axis == dimensions() ? times_ : places_[static_cast<size_t>(axis)];
  }

  // A field over the axes of the grid.
  Tensor over_grid(const std::string& field) const {
    auto values = values_of(field).index_select(0, order_);  // (N, T)
    std::vector<int64_t> shape;
    for (const auto& places : places_) shape.push_back(places.size(0));
    shape.push_back(times_.size(0));
    return values.reshape(shape);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}: {}", path_.string(), what));
  }

  Tensor array(const char* name) const {
    const auto found = table_.find(name);
    if (found == table_.end()) {
      fail(fmt::format("expected an array named '{}' beside '{}'", name,
                       kWakePoints));
    }
    auto numbers = found->second.to(torch::kFloat64);
    if (!torch::isfinite(numbers).all().item<bool>()) {
      fail(fmt::format("expected finite numbers of {}", name));
    }
    return numbers;
  }

  // Places of a column, each once, and which of them each point has.
  void find_places(int64_t column) {
    const auto [sorted, from] = points_.select(1, column).sort();
    const double length = (sorted[-1] - sorted[0]).item<double>();
    const auto is_new = torch::cat(
        {torch::ones(1, torch::kBool), sorted.diff() > kSamePlace * length});
    const auto numbers = is_new.to(torch::kInt64).cumsum(0) - 1;
    places_.push_back(sorted.masked_select(is_new));
    place_of_.push_back(torch::empty_like(numbers).scatter_(0, from, numbers));
  }

  // Which point is at each node of the grid, the last axis fastest.
  void find_order() {
    const int64_t count = points_.size(0);
    std::vector<std::string> sizes;
    auto node = torch::zeros({count}, torch::kInt64);
    double nodes = 1;
    for (size_t d = 0; d < places_.size(); ++d) {
      const int64_t size = places_[d].size(0);
      sizes.push_back(fmt::format("{} of {}", size, kAxes[d]));
      nodes *= static_cast<double>(size);
      if (nodes > static_cast<double>(count)) break;
      node = node * size + place_of_[d];
    }
    if (nodes == static_cast<double>(count) &&
        std::get<0>(torch::_unique(node)).size(0) == count) {
      order_ = torch::empty_like(node).scatter_(
          0, node, torch::arange(count, torch::kInt64));
      return;
    }
    throw DataError(
        fmt::format(
            "{}: the {} points of {} are no grid: they have {} "
            "different places{}",
            path_.string(), count, kWakePoints, fmt::join(sizes, " and "),
            nodes == static_cast<double>(count) ? ", and some point comes twice"
                                                : ""),
        "scattered readings are for sensors.file: a table with a column for "
        "each variable and field");
  }

  Tensor values_of(const std::string& field) const {  // (N, T)
    const int64_t points = points_.size(0), times = times_.size(0);
    const auto expect = [&](const char* name, const Tensor& values,
                            const std::vector<int64_t>& shape) {
      if (values.sizes() == shape) return;
      fail(fmt::format("expected {} of ({}), got ({})", name,
                       fmt::join(shape, ", "),
                       fmt::join(values.sizes(), ", ")));
    };
    if (field == "p") {
      const auto pressures = array(kPressures);
      expect(kPressures, pressures, {points, times});
      return pressures;
    }
    const int64_t component = number_among(kComponents, field);
    if (component < 0) {
      fail(fmt::format("a file with {} has u, v, w and p, not {}", kWakePoints,
                       field));
    }
    auto velocities = array(kVelocities);
    // MATLAB leaves out a last axis of one.
    if (times == 1 && velocities.dim() == 2) {
      velocities = velocities.unsqueeze(2);
    }
    const int64_t components =
        std::max(component + 1, velocities.dim() == 3 ? velocities.size(1) : 1);
    expect(kVelocities, velocities, {points, components, times});
    return velocities.select(1, component);
  }

  const Tensors& table_;
  const std::filesystem::path& path_;
  Tensor points_, times_;         // (N, D), (T)
  std::vector<Tensor> places_;    // along each axis, rising
  std::vector<Tensor> place_of_;  // (N), of each point, along each axis
  Tensor order_;                  // (N)
};

}  // namespace

const std::vector<std::string>& wake_layout_names() {
  static const std::vector<std::string> names{kWakePoints, kVelocities,
                                              kPressures};
  return names;
}

Gridded from_wake_layout(const Tensors& table,
                         const std::filesystem::path& path,
                         const std::vector<std::string>& variables,
                         const std::vector<std::string>& fields) {
  const WakeLayout layout(table, path);
  Gridded all;
  std::vector<int64_t> axes;
  for (const auto& variable : variables) {
    axes.push_back(layout.axis_of(variable));
    all.along.push_back(layout.along(axes.back()));
  }
  if (std::ssize(axes) != layout.dimensions() + 1) {
    throw DataError(fmt::format(
        "{}: {} has {} places of each point, and beside t the problem has {}",
        path.string(), kWakePoints, layout.dimensions(), std::ssize(axes) - 1));
  }
  std::vector<Tensor> columns;
  for (const auto& field : fields) {
    columns.push_back(layout.over_grid(field).permute(axes).flatten());
  }
  all.fields = torch::stack(columns, 1);
  return all;
}

}  // namespace propagator::data
