#include "propagator/report/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace propagator::report {

Table::Table(std::vector<std::string> header) { row(std::move(header)); }

void Table::row(std::vector<std::string> cells) {
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], row[c].size());
    }
  }
  std::string text;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line = " ";
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      line += fmt::format(" {:<{}} ", rows_[r][c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (r == 0) {
      std::string rule = "  ";
      for (const size_t width : widths) rule += std::string(width, '-') + "  ";
      rule.erase(rule.find_last_not_of(' ') + 1);
      text += rule + "\n";
    }
  }
  return text;
}

std::string scientific(double value) { return fmt::format("{:.2e}", value); }

}  // namespace propagator::report
