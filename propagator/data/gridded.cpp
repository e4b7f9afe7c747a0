#include "propagator/data/gridded.h"

#include <fmt/ranges.h>
#include <torch/utils.h>

#include "propagator/data/named_table.h"

namespace propagator::data {
namespace {

using torch::Tensor;

Tensor rising(const Tensor& array, const std::string& name,
              const std::filesystem::path& path) {
  const auto places = array.to(torch::kFloat64).flatten();
  const bool rises =
      places.numel() > 0 && torch::isfinite(places).all().item<bool>() &&
      (places.numel() == 1 || (places.diff() > 0).all().item<bool>());
  if (rises) return places;
  throw DataError(
      fmt::format("{}: expected numbers of {} that rise", path.string(), name));
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
  const auto table = read_table(path, names);
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
      std::vector<int64_t> order(shape.size());
      for (size_t v = 0; v < order.size(); ++v) {
        order[v] = static_cast<int64_t>(order.size() - 1 - v);
      }
      values = values.permute(order);
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
