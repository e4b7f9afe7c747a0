#include "propagator/data/named_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "propagator/core/config.h"
#include "propagator/core/error.h"
#include "propagator/core/log.h"
#include "propagator/data/tensor_file.h"

namespace propagator::data {
namespace {

namespace fs = std::filesystem;

bool is_csv(const fs::path& path) { return path.extension() == ".csv"; }

// The candidate that a name was meant for: the same but for capitals, or, of
// longer names, a near one. Between short ones every name is near.
std::optional<std::string> meant_by(
    const std::string& name, const std::vector<std::string>& candidates) {
  constexpr size_t kLong = 4;
  const auto same_letter = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  std::vector<std::string> long_ones;
  for (const auto& candidate : candidates) {
    if (std::ranges::equal(name, candidate, same_letter)) return candidate;
    if (candidate.size() >= kLong) long_ones.push_back(candidate);
  }
  if (name.size() < kLong) return std::nullopt;
  return config::nearest(name, long_ones);
}

// What else a file has: `taken` are the names that were looked for, which one
// of the others may be meant for.
void warn_of_others(const fs::path& path, const std::vector<std::string>& has,
                    const std::vector<std::string>& taken) {
  std::vector<std::string> others, missing;
  std::ranges::copy_if(has, std::back_inserter(others), [&](const auto& name) {
    return std::ranges::count(taken, name) == 0;
  });
  std::ranges::copy_if(
      taken, std::back_inserter(missing),
      [&](const auto& name) { return std::ranges::count(has, name) == 0; });
  if (others.empty()) return;
  for (auto& name : others) {
    const auto meant = meant_by(name, missing);
    if (meant) name += fmt::format(" (did you mean {}?)", *meant);
  }
  log::warn("{}: not used: {}", path.string(), fmt::join(others, ", "));
}

// DataError of a name that a file lacks, `what` it may be.
[[noreturn]] void fail_missing(const fs::path& path, const char* what,
                               const std::string& name,
                               const std::vector<std::string>& has) {
  const auto meant = meant_by(name, has);
  throw DataError(
      fmt::format(
          "{}: {} named '{}', it has {}", path.string(), what, name,
          has.empty() ? "none" : fmt::format("{}", fmt::join(has, ", "))),
      meant ? fmt::format("is {} meant? Then call it {}", *meant, name) : "");
}

std::vector<std::string> both(std::vector<std::string> names,
                              const std::vector<std::string>& more) {
  names.insert(names.end(), more.begin(), more.end());
  return names;
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
    const std::vector<std::string>& more,
    const std::vector<std::string>& gaps) {
  const auto columns = read_csv(path, gaps);
  std::vector<std::string> has;
  for (const auto& column : columns) has.push_back(column.name);
  std::map<std::string, torch::Tensor> chosen;
  for (const auto& name : chosen_of(has, names, more)) {
    const auto found = std::ranges::find(columns, name, &Column::name);
    if (found == columns.end()) {
      fail_missing(path, "line 1: expected a column", name, has);
    }
    chosen[name] = found->values;
  }
  warn_of_others(path, has, both(names, more));
  return chosen;
}

std::map<std::string, torch::Tensor> from_arrays(
    const fs::path& path, const std::vector<std::string>& names,
    const std::vector<std::string>& more) {
  const auto reader = TensorReader::open(path);
  std::vector<std::string> has;
  for (const auto& [name, shape] : reader->shapes()) has.push_back(name);
  std::map<std::string, torch::Tensor> chosen;
  for (const auto& name : chosen_of(has, names, more)) {
    if (std::ranges::count(has, name) == 0) {
      fail_missing(path, "expected an array", name, has);
    }
    chosen[name] = reader->all(name);
  }
  warn_of_others(path, has, both(names, more));
  return chosen;
}

}  // namespace

void expect_table(const fs::path& path) {
  if (is_csv(path)) return;
  try {
    tensor_format(path);
  } catch (const UsageError&) {
    throw UsageError(
        fmt::format("{}: expected a file name that ends in .csv, .h5, .hdf5, "
                    ".npz or .mat",
                    path.string()));
  }
}

void expect_written_table(const fs::path& path) {
  if (is_csv(path)) return;
  try {
    written_format(path);
  } catch (const UsageError& error) {
    throw UsageError(
        fmt::format("{}: expected a file name that ends in .csv, .h5, .hdf5 "
                    "or .npz",
                    path.string()),
        error.hint());
  }
}

std::map<std::string, torch::Tensor> read_table(
    const fs::path& path, const std::vector<std::string>& names,
    const std::vector<std::string>& more,
    const std::vector<std::string>& gaps) {
  expect_table(path);
  return is_csv(path) ? from_columns(path, names, more, gaps)
                      : from_arrays(path, names, more);
}

std::map<std::string, torch::Tensor> read_whole_table(const fs::path& path) {
  expect_table(path);
  if (!is_csv(path)) return load_tensors(path).tensors;
  std::map<std::string, torch::Tensor> all;
  for (const auto& column : read_csv(path)) all[column.name] = column.values;
  return all;
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
    const auto bad = torch::isfinite(column.flatten()).logical_not().nonzero();
    if (bad.numel() > 0) {
      throw UsageError(
          fmt::format("'{}' has a value that is not finite, in row "
                      "{}",
                      variable, bad[0][0].item<int64_t>() + 1));
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
