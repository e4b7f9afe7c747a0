#include "propagator/data/gridded.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include "propagator/data/axes.h"
#include "propagator/data/named_table.h"
#include "propagator/data/wake_layout.h"

namespace propagator::data {
namespace {

using torch::Tensor;

Tensor rising(const Tensor& array, const std::string& name,
              const std::filesystem::path& path) {
  const auto places = array.to(torch::kFloat64).flatten();
  const auto fail = [&](const std::string& got) {
    throw DataError(fmt::format("{}: expected numbers of {} that rise, got {}",
                                path.string(), name, got),
                    "put them in order, and the fields with them");
  };
  if (places.numel() == 0) fail("none");
  if (!torch::isfinite(places).all().item<bool>())
    fail("one that is not finite");
  const auto falls = (places.diff() <= 0).nonzero();
  if (falls.numel() > 0) {
    const int64_t n = falls[0][0].item<int64_t>();
    fail(fmt::format("{:.6g} behind {:.6g}", places[n + 1].item<double>(),
                     places[n].item<double>()));
  }
  return places;
}

// Arrays of a file under these names, which are those of a grid or of the
// other layout.
std::map<std::string, Tensor> arrays_of(const std::filesystem::path& path,
                                        const std::vector<std::string>& names) {
  auto all = names;
  const auto& others = wake_layout_names();
  all.insert(all.end(), others.begin(), others.end());
  auto table = read_table(path, {}, all);
  if (table.contains(kWakePoints)) return table;
  std::vector<std::string> has;
  for (const auto& [name, array] : table) has.push_back(name);
  for (const auto& name : names) {
    if (table.contains(name)) continue;
    throw DataError(
        fmt::format(
            "{}: expected an array named '{}'{}", path.string(), name,
            has.empty() ? "" : fmt::format(" beside {}", fmt::join(has, ", "))),
        "it has the places of each variable and the values of each field, "
        "under their names");
  }
  return table;
}

}  // namespace

std::vector<int64_t> Gridded::shape() const {
  std::vector<int64_t> sizes;
  for (const auto& places : along) sizes.push_back(places.size(0));
  return sizes;
}

Gridded read_gridded(const std::filesystem::path& path,
                     const std::vector<std::string>& variables,
                     const std::vector<std::string>& fields) {
  auto names = variables;
  names.insert(names.end(), fields.begin(), fields.end());
  const auto table = arrays_of(path, names);
  if (table.contains(kWakePoints)) {
    return from_wake_layout(table, path, variables, fields);
  }
  Gridded all;
  for (const auto& name : variables) {
    all.along.push_back(rising(table.at(name), name, path));
  }
  const auto shape = all.shape();
  const std::vector<int64_t> reversed(shape.rbegin(), shape.rend());
  std::vector<Tensor> columns;
  for (const auto& field : fields) {
    auto values = table.at(field).to(torch::kFloat64);
    if (values.sizes() != shape && values.sizes() == reversed) {
      values = with_axes_reversed(values);
    }
    if (values.sizes() != shape ||
        !torch::isfinite(values).all().item<bool>()) {
      throw DataError(fmt::format(
          "{}: expected finite numbers of {} over {} or {} places, got {}",
          path.string(), field, fmt::join(shape, " x "),
          fmt::join(reversed, " x "), fmt::join(values.sizes(), " x ")));
    }
    columns.push_back(values.flatten());
  }
  all.fields = torch::stack(columns, 1);
  return all;
}

}  // namespace propagator::data
