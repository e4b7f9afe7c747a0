#include "propagator/data/named_table.h"

#include <fmt/ranges.h>

#include <algorithm>

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
    tensor_format(path);
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

// What to take of a file that has these names.
std::vector<std::string> chosen_of(const std::vector<std::string>& has,
                                   const std::vector<std::string>& names,
                                   const std::vector<std::string>& more) {
  auto chosen = names;
  std::ranges::copy_if(more, std::back_inserter(chosen),
                       [&](const std::string& name) {
                         return std::ranges::count(has, name) > 0;
                       });
  return chosen;
}

std::map<std::string, torch::Tensor> from_columns(
    const fs::path& path, const std::vector<std::string>& names,
    const std::vector<std::string>& more) {
  const auto columns = read_csv(path);
  std::vector<std::string> has;
  for (const auto& column : columns) has.push_back(column.name);
  const auto wanted = chosen_of(has, names, more);
  std::map<std::string, torch::Tensor> chosen;
  for (const auto& name : wanted) {
    const auto found = std::ranges::find(columns, name, &Column::name);
    if (found == columns.end()) {
      throw DataError(
          fmt::format("{}: line 1: expected a column named '{}', it has {}",
                      path.string(), name, fmt::join(has, ", ")));
    }
    chosen[name] = found->values;
  }
  warn_of_others(path, has, wanted);
  return chosen;
}

std::map<std::string, torch::Tensor> from_arrays(
    const fs::path& path, const std::vector<std::string>& names,
    const std::vector<std::string>& more) {
  const auto reader = TensorReader::open(path);
  std::vector<std::string> has;
  for (const auto& [name, shape] : reader->shapes()) has.push_back(name);
  const auto wanted = chosen_of(has, names, more);
  std::map<std::string, torch::Tensor> chosen;
  for (const auto& name : wanted) chosen[name] = reader->all(name);
  warn_of_others(path, has, wanted);
  return chosen;
}

}  // namespace

void expect_table(const fs::path& path) { is_csv(path); }

std::map<std::string, torch::Tensor> read_table(
    const fs::path& path, const std::vector<std::string>& names,
    const std::vector<std::string>& more) {
  return is_csv(path) ? from_columns(path, names, more)
                      : from_arrays(path, names, more);
}

void write_table(const fs::path& path, const std::vector<Column>& columns,
                 const std::string& note) {
  std::vector<Column> once;
  TensorFile file{.tensors = {}, .note = note};
  for (const auto& column : columns) {
    const bool fresh = file.tensors.emplace(column.name, column.values).second;
    if (fresh) once.push_back({column.name, column.values.flatten()});
  }
  if (is_csv(path)) {
    write_csv(path, once);
  } else {
    save_tensors(path, file);
  }
}

const torch::Tensor& tensor_named(
    const std::map<std::string, torch::Tensor>& table,
    const std::string& name) {
  const auto found = table.find(name);
  if (found != table.end() && found->second.defined()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, value] : table) names.push_back(known);
  throw UsageError(fmt::format("expected a tensor named '{}', got {}", name,
                               fmt::join(names, ", ")));
}

torch::Tensor stack_points(const std::map<std::string, torch::Tensor>& table,
                           const std::vector<std::string>& variables) {
  std::vector<torch::Tensor> columns;
  bool alike = true;
  for (const auto& variable : variables) {
    columns.push_back(
        tensor_named(table, variable).to(torch::kCPU, torch::kFloat64));
    const auto& column = columns.back();
    const auto& first = columns.front();
    if (column.numel() != first.numel()) {
      throw UsageError(fmt::format(
          "expected '{}' and '{}' of one length, got {} and {}",
          variables.front(), variable, first.numel(), column.numel()));
    }
    if (!torch::isfinite(column).all().item<bool>()) {
      throw UsageError(
          fmt::format("'{}' has a value that is not finite", variable));
    }
    alike = alike && column.dim() > 0 && column.sizes() == first.sizes();
  }
  if (columns.front().numel() == 0) {
    throw UsageError("expected a point, got none");
  }
  for (auto& column : columns) {
    if (!alike) column = column.flatten();
  }
  return torch::stack(columns, -1);
}

torch::Tensor read_points(const fs::path& path,
                          const std::vector<std::string>& variables) {
  const auto table = read_table(path, variables);
  return blame_file(path, [&] { return stack_points(table, variables); });
}

}  // namespace propagator::data
