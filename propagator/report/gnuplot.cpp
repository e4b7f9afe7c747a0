#include "propagator/report/gnuplot.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <string_view>
#include <thread>

#include "propagator/core/error.h"
#include "propagator/core/plain_text.h"
#include "propagator/core/process.h"
#include "propagator/report/gnuplot_script.h"

namespace propagator::report {
namespace {

// More bytes of a label than any figure has room for.
constexpr size_t kLongestLabel = 400;

// A figure's name becomes that of its files, part of its script and of the
// page. Letters of other scripts are welcome: a field may be called θ.
void expect_name(const std::string& name) {
  const auto is_good = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' ||
           c == '_' || static_cast<unsigned char>(c) >= 0x80;
  };
  if (is_plain_text(name) && std::ranges::all_of(name, is_good) &&
      !name.empty() && name.front() != '-') {
    return;
  }
  throw std::invalid_argument(fmt::format(
      "[figure] expected a name of letters, digits, '-' and '_', got '{}'",
      name));
}

// Draws to PNG (twice the size, for print and sharp screens) and to SVG.
std::string whole_script(const std::string& name, const GnuplotScript& script) {
  return fmt::format(
      "# Draw it again with: gnuplot {0}.gp\n"
      "name = '{0}'      # of the data, {0}*.dat\n"
      "picture = '{0}'   # of what is drawn; another name keeps this one\n"
      "set encoding utf8\n"
      "do for [device in 'png svg'] {{\n"
      "reset\n"
      "if (device eq 'png') {{\n"
      "  set terminal pngcairo size {3:.0f},{4:.0f} font 'DejaVu Sans,10' "
      "fontscale 2 linewidth 2 pointscale 2 background '#ffffff'\n"
      "}} else {{\n"
      "  set terminal svg size {1:.0f},{2:.0f} dynamic "
      "font 'DejaVu Sans,Verdana,sans-serif,13' background '#ffffff'\n"
      "}}\n"
      "small = device eq 'png' ? ',8' : ',10'\n"
      "set output picture.'.'.device\n"
      "{5}"
      "unset output\n"
      "}}\n",
      name, script.width, script.height, 2 * script.width, 2 * script.height,
      script.body);
}

}  // namespace

int64_t GnuplotScript::block(const std::string& title,
                             const std::vector<std::string>& columns,
                             const std::string& rows) {
  // gnuplot does not count a block without a row: it would take the next one
  // for it. No plot uses more columns than these.
  constexpr const char* kNothing = "NaN\tNaN\tNaN\tNaN\n";
  auto& data = files.back();
  data.text += fmt::format("# [{}] {}\n", data.blocks, plain_text(title));
  if (!columns.empty()) {
    const auto names = fmt::format("{}", fmt::join(columns, "\t"));
    data.text += fmt::format("# {}\n", plain_text(names, /*kept=*/"\t"));
  }
  data.text +=
      fmt::format("{}\n\n", rows.empty() ? std::string(kNothing) : rows);
  return data.blocks++;
}

std::string GnuplotScript::file(const std::string& ending) {
  files.push_back({ending});
  return fmt::format("data = name.'{}'\n", ending);
}

std::string in_quotes(const std::string& text) {
  const auto is_among = [](char c, std::string_view some) {
    return some.find(c) != std::string_view::npos;
  };
  std::string out;
  for (const char c : plain_text(text)) {
    const bool begins = (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    if (begins && out.size() > kLongestLabel) break;
    if (is_among(c, "'`%")) {  // of strings, commands and formats
      out += fmt::format("\\{:03o}", c);
    } else {
      if (is_among(c, "_^{}@&~\\")) out += '\\';
      out += c;
    }
  }
  // Without a group some devices would show the backslashes.
  const bool marked = out.find('\\') != std::string::npos;
  return fmt::format("'{}{}'", out, marked ? "{}" : "");
}

std::string plain(double value) {
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "NaN";
}

double tick_step(double extent, double count) {
  const double rough = std::abs(extent) / std::max(count, 1.0);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

double FigureFolder::add(const std::string& name, const Figure& figure) {
  expect_name(name);
  const auto script =
      std::visit([](const auto& kind) { return write_script(kind); }, figure);
  // Of an earlier figure: pictures, and data of rows it no longer has.
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) {
    const auto file = entry.path().filename().string();
    const bool row =
        file.starts_with(name + "-") && file.ends_with(".dat") &&
        std::isdigit(static_cast<unsigned char>(file[name.size() + 1]));
    if (row || file == name + ".png" || file == name + ".svg") {
      fs::remove(entry.path(), ignored);
    }
  }
  for (const auto& data : script.files) {
    write_file_atomically(path_ / (name + data.ending), data.text);
  }
  write_file_atomically(path_ / (name + ".gp"), whole_script(name, script));
  waiting_.push_back(name);
  return script.width;
}

bool FigureFolder::can_draw() { return !find_program("gnuplot").empty(); }

void FigureFolder::draw() {
  const auto gnuplot = find_program("gnuplot");
  const auto names = std::exchange(waiting_, {});
  if (gnuplot.empty()) return;
  std::deque<std::pair<std::string, Process>> running;
  const auto finish_oldest = [&] {
    const auto [status, output] = running.front().second.wait();
    if (status != 0) {
      throw RuntimeError(
          ExitCode::kFailure,
          fmt::format("gnuplot ends with {} at {}: {}", status,
                      (path_ / (running.front().first + ".gp")).string(),
                      output),
          "the script and its data are kept there");
    }
    running.pop_front();
  };
  for (const auto& name : names) {
    if (running.size() >= std::max(1u, std::thread::hardware_concurrency())) {
      finish_oldest();
    }
    // -d: as the script says, whatever the user or the folder has set.
    running.emplace_back(name, Process(gnuplot, {"-d", name + ".gp"}, path_));
  }
  while (!running.empty()) finish_oldest();
}

}  // namespace propagator::report
