#pragma once

#include <torch/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace propagator::data {

// Numbers under a name.
struct Column {
  std::string name;
  torch::Tensor values;  // (N)
};

// A table as text: a line of names, then one line of numbers for each row,
// with commas between them. A cell may stand in double quotes, in which "" is
// one of them; spaces about a cell, CRLF and a byte order mark are let pass.
// The columns come in the file's order, in float64. DataError, with line and
// column, unless all names differ, there is a row, and every row has a finite
// number under every name and nothing more. Only under the names of `gaps` a
// cell may be empty or `nan`, and is NaN then.
std::vector<Column> read_csv(const std::filesystem::path& path,
                             const std::vector<std::string>& gaps = {});
// The same of a text; errors name `source`.
std::vector<Column> from_csv(std::string text, const std::string& source,
                             const std::vector<std::string>& gaps = {});

// The same the other way, in as few digits as give each number back; all
// columns must have one length.
void write_csv(const std::filesystem::path& path,
               const std::vector<Column>& columns);

}  // namespace propagator::data
