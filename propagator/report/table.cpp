#include "propagator/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "propagator/core/plain_text.h"
#include "propagator/report/html.h"

namespace propagator::report {
namespace {

bool begins_with_number(const std::string& text) {
  double value;
  const auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc();
}

}  // namespace

Table::Table(std::vector<std::string> header) { row(std::move(header)); }

Table Table::of_rows(std::vector<std::vector<std::string>> rows) {
  Table table({});
  table.rows_ = std::move(rows);
  return table;
}

void Table::row(std::vector<std::string> cells) {
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  auto rows = rows_;
  std::vector<size_t> widths;
  for (auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) {
      row[c] = plain_text(row[c]);
      widths[c] = std::max(widths[c], row[c].size());
    }
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line = " ";
    for (size_t c = 0; c < rows[r].size(); ++c) {
      line += fmt::format(" {:<{}} ", rows[r][c], widths[c]);
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

std::string Table::html() const {
  std::string text = "<table>\n<thead>\n";
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (r == 1) text += "</thead>\n<tbody>\n";
    text += "<tr>";
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      // A heading stands over its numbers.
      const auto& sample = rows_[std::min(std::max<size_t>(r, 1), size())];
      const bool number = c < sample.size() &&
                          (sample[c] == "-" || begins_with_number(sample[c]));
      text +=
          fmt::format("<{0}{1}>{2}</{0}>", r == 0 ? "th" : "td",
                      number ? " class=\"number\"" : "", escaped(rows_[r][c]));
    }
    text += "</tr>\n";
  }
  return text + (size() > 0 ? "</tbody>\n</table>\n" : "</thead>\n</table>\n");
}

std::string scientific(double value) { return fmt::format("{:.2e}", value); }

}  // namespace propagator::report
