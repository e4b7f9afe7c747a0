#pragma once

#include <string>
#include <vector>

namespace propagator::report {

// A table of text with aligned columns, for the screen and for a page; the
// first row is the header.
//   Table t({"model", "MSE"});
//   t.row({"ours", "1.2e-6"});
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  // As `rows` gave them.
  static Table of_rows(std::vector<std::vector<std::string>> rows);

  void row(std::vector<std::string> cells);
  size_t size() const { return rows_.size() - 1; }  // without the header
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }
  std::string text() const;
  std::string html() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// 1.234e-06 as "1.23e-06"
std::string scientific(double value);

}  // namespace propagator::report
