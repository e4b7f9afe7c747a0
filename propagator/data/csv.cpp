#include "propagator/data/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string_view>

#include "propagator/core/error.h"
#include "propagator/core/files.h"

namespace propagator::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kBlank = " \t";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// The lines of a text one after the other, as cells.
class Lines {
 public:
  Lines(std::string text, std::string source)
      : source_(std::move(source)), text_(std::move(text)) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  // False at the end of the file.
  bool next(std::vector<std::string>& cells) {
    cells.clear();
    if (at_ >= text_.size()) return false;
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    auto line = std::string_view(text_).substr(at_, end - at_);
    if (line.ends_with('\r')) line = line.substr(0, line.size() - 1);
    at_ = end + 1;
    ++number_;
    bool more = true;
    while (more) more = cell(line, cells);
    return true;
  }

  // A fault of cell `column` of this line, counted from 0.
  [[noreturn]] void fail(size_t column, const std::string& what) const {
    throw DataError(fmt::format("{}: line {}, column {}: {}", source_, number_,
                                column + 1, what));
  }
  [[noreturn]] void fail_empty(const char* what) const {
    throw DataError(fmt::format("{}: line {}: expected {}, the file ends",
                                source_, number_ + 1, what));
  }

 private:
  // Takes one cell and its comma, if any, off the line.
  bool cell(std::string_view& line, std::vector<std::string>& cells) const {
    size_t end = 0;
    const size_t begin = std::min(line.find_first_not_of(kBlank), line.size());
    if (begin < line.size() && line[begin] == '"') {
      std::string text;
      end = begin + 1;
      while (true) {
        const size_t quote = line.find('"', end);
        if (quote == std::string_view::npos) {
          fail(cells.size(), "expected a closing quote on this line");
        }
        text += line.substr(end, quote - end);
        end = quote + 1;
        if (end >= line.size() || line[end] != '"') break;
        text += '"';
        ++end;
      }
      end = std::min(line.find_first_not_of(kBlank, end), line.size());
      if (end < line.size() && line[end] != ',') {
        fail(cells.size(), "expected a comma behind the closing quote");
      }
      cells.push_back(std::move(text));
    } else {
      end = static_cast<size_t>(std::ranges::find(line, ',') - line.begin());
      cells.emplace_back(trimmed(line.substr(0, end)));
    }
    if (end >= line.size()) return false;
    line = line.substr(end + 1);
    return true;
  }

  std::string source_, text_;
  size_t at_ = 0;
  int64_t number_ = 0;
};

// False unless the whole text is a finite number.
bool parse(std::string_view text, double& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end && std::isfinite(value);
}

// A cell in which no number is meant to be.
bool is_gap(std::string_view text) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  };
  return text.empty() ||
         std::ranges::equal(text, std::string_view("nan"), same);
}

std::string quoted(const std::string& name) {
  if (name.find_first_of(",\"") == std::string::npos && trimmed(name) == name) {
    return name;
  }
  std::string text = "\"";
  for (const char c : name) text.append(c == '"' ? 2 : 1, c);
  return text + '"';
}

// The first line.
std::vector<std::string> names_of(Lines& lines) {
  std::vector<std::string> names;
  if (!lines.next(names)) lines.fail_empty("the names of the columns");
  double number = 0;
  if (std::ranges::all_of(
          names, [&](const auto& name) { return parse(name, number); })) {
    lines.fail(0, "expected the names of the columns, got numbers");
  }
  std::set<std::string> known;
  for (size_t c = 0; c < names.size(); ++c) {
    if (names[c].empty()) lines.fail(c, "expected a name, got nothing");
    if (!known.insert(names[c]).second) {
      lines.fail(c, fmt::format("there is a '{}' already", names[c]));
    }
  }
  return names;
}

}  // namespace

std::vector<Column> read_csv(const fs::path& path,
                             const std::vector<std::string>& gaps) {
  return from_csv(read_file(path), path.string(), gaps);
}

std::vector<Column> from_csv(std::string text, const std::string& source,
                             const std::vector<std::string>& gaps) {
  Lines lines(std::move(text), source);
  const auto names = names_of(lines);
  std::vector<bool> may_lack;
  for (const auto& name : names) {
    may_lack.push_back(std::ranges::count(gaps, name) > 0);
  }
  std::vector<std::string> cells;
  std::vector<std::vector<double>> numbers(names.size());
  while (lines.next(cells)) {
    for (size_t c = 0; c < names.size(); ++c) {
      auto& number = numbers[c].emplace_back();
      if (c < cells.size() && parse(cells[c], number)) continue;
      if (c < cells.size() && may_lack[c] && is_gap(cells[c])) {
        number = std::nan("");
        continue;
      }
      const auto got =
          c < cells.size() ? fmt::format("'{}'", cells[c]) : "nothing";
      lines.fail(c, fmt::format("expected a finite number for '{}', got {}",
                                names[c], got));
    }
    if (cells.size() > names.size()) {
      lines.fail(names.size(), fmt::format("expected the end of the line "
                                           "behind {} numbers, got '{}'",
                                           names.size(), cells[names.size()]));
    }
  }
  if (numbers.front().empty()) lines.fail_empty("numbers below the names");
  std::vector<Column> columns;
  for (size_t c = 0; c < names.size(); ++c) {
    columns.push_back({names[c], torch::tensor(numbers[c], torch::kFloat64)});
  }
  return columns;
}

void write_csv(const fs::path& path, const std::vector<Column>& columns) {
  fmt::memory_buffer text;
  const auto add = [&](size_t c, const std::string& cell) {
    text.append(cell);
    text.push_back(c + 1 < columns.size() ? ',' : '\n');
  };
  std::vector<torch::Tensor> values;
  for (size_t c = 0; c < columns.size(); ++c) {
    add(c, quoted(columns[c].name));
    values.push_back(columns[c].values.to(torch::kCPU, torch::kFloat64));
    if (values[c].dim() != 1 || values[c].size(0) != values[0].size(0)) {
      throw std::invalid_argument(
          fmt::format("[write_csv] expected columns of one length, '{}' "
                      "differs",
                      columns[c].name));
    }
  }
  const int64_t rows = columns.empty() ? 0 : values.front().size(0);
  std::vector<const double*> numbers;
  for (auto& column : values) {
    column = column.contiguous();
    numbers.push_back(column.data_ptr<double>());
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns.size(); ++c) {
      const double number = numbers[c][r];
      const bool narrow = columns[c].values.scalar_type() == torch::kFloat32;
      add(c, narrow ? fmt::format("{}", static_cast<float>(number))
                    : fmt::format("{}", number));
    }
  }
  write_file_atomically(path, {text.data(), text.size()});
}

}  // namespace propagator::data
