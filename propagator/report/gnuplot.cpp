#include "propagator/report/gnuplot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <string_view>
#include <thread>

#include "propagator/core/error.h"
#include "propagator/core/process.h"
#include "propagator/report/gnuplot_script.h"

namespace propagator::report {
namespace {

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
                             const std::string& rows) {
  auto& data = files.back();
  data.text += fmt::format("# [{}] {}\n{}\n\n", data.blocks, title, rows);
  return data.blocks++;
}

std::string GnuplotScript::file(const std::string& ending) {
  files.push_back({ending});
  return fmt::format("data = name.'{}'\n", ending);
}

std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (std::string_view("_^{}@&~\\").find(c) != std::string_view::npos) {
      out += '\\';
    }
    out += c;
    if (c == '\'') out += c;
  }
  return out + "'";
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
    running.emplace_back(name, Process(gnuplot, {name + ".gp"}, path_));
  }
  while (!running.empty()) finish_oldest();
}

}  // namespace propagator::report
