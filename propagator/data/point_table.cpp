#include "propagator/data/point_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/data/tensor_file.h"

namespace propagator::data {
namespace {

namespace fs = std::filesystem;

// UsageError if the ending is none of those known.
bool is_csv(const fs::path& path) {
  if (path.extension() == ".csv") return true;
  try {
    data::tensor_format(path);
  } catch (const UsageError&) {
    throw UsageError(
        fmt::format("{}: expected a file name that ends in .csv, .h5, .hdf5 "
                    "or .npz",
                    path.string()));
  }
  return false;
}

void warn_of_others(const fs::path& path, std::vector<std::string> names,
                    const std::vector<std::string>& variables) {
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::count(variables, name) > 0;
  });
  if (names.empty()) return;
  log::warn("{}: not used: {}", path.string(), fmt::join(names, ", "));
}

std::vector<torch::Tensor> from_csv(const fs::path& path,
                                    const std::vector<std::string>& variables) {
  const auto columns = data::read_csv(path);
  std::vector<std::string> names;
  for (const auto& column : columns) names.push_back(column.name);
  std::vector<torch::Tensor> chosen;
  for (const auto& variable : variables) {
    const auto found =
        std::ranges::find(columns, variable, &data::Column::name);
    if (found == columns.end()) {
      throw DataError(
          fmt::format("{}: line 1: expected a column named '{}', it has {}",
                      path.string(), variable, fmt::join(names, ", ")));
    }
    chosen.push_back(found->values);
  }
  warn_of_others(path, names, variables);
  return chosen;
}

std::vector<torch::Tensor> from_arrays(
    const fs::path& path, const std::vector<std::string>& variables) {
  const auto reader = data::TensorReader::open(path);
  std::vector<torch::Tensor> columns;
  for (const auto& variable : variables) {
    columns.push_back(reader->all(variable).to(torch::kFloat64));
    if (columns.back().numel() != columns.front().numel()) {
      throw DataError(
          fmt::format("{}: expected '{}' and '{}' of one length, got {} and {}",
                      path.string(), variables.front(), variable,
                      columns.front().numel(), columns.back().numel()));
    }
    if (!torch::isfinite(columns.back()).all().item<bool>()) {
      throw DataError(fmt::format("{}: '{}' has a value that is not finite",
                                  path.string(), variable));
    }
  }
  if (columns.front().numel() == 0) {
    throw DataError(
        fmt::format("{}: expected a point, got none", path.string()));
  }
  std::vector<std::string> names;
  for (const auto& [name, shape] : reader->shapes()) names.push_back(name);
  warn_of_others(path, names, variables);
  const bool alike = std::ranges::all_of(columns, [&](const auto& column) {
    return column.dim() > 0 && column.sizes() == columns.front().sizes();
  });
  if (alike) return columns;
  for (auto& column : columns) column = column.flatten();
  return columns;
}

}  // namespace

void expect_point_table(const fs::path& path) { is_csv(path); }

torch::Tensor read_points(const fs::path& path,
                          const std::vector<std::string>& variables) {
  return torch::stack(
      is_csv(path) ? from_csv(path, variables) : from_arrays(path, variables),
      -1);
}

void write_point_table(const fs::path& path,
                       const std::vector<data::Column>& columns) {
  std::vector<data::Column> once;
  data::TensorFile file;
  for (const auto& column : columns) {
    const bool fresh = file.tensors.emplace(column.name, column.values).second;
    if (fresh) once.push_back({column.name, column.values.flatten()});
  }
  if (is_csv(path)) {
    data::write_csv(path, once);
    return;
  }
  file.note = nlohmann::json{{"made_by", "propagator predict"}}.dump();
  data::save_tensors(path, file);
}

}  // namespace propagator::data
