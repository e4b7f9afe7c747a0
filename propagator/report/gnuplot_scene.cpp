#include <fmt/format.h>

#include "propagator/report/gnuplot_script.h"

// Points in space.

namespace propagator::report {
namespace {

std::string row_of(const torch::Tensor& point) {
  return fmt::format("{}\t{}\t{}", plain(point[0].item<double>()),
                     plain(point[1].item<double>()),
                     plain(point[2].item<double>()));
}

// Title, angle of view, legend and scale.
std::string view_commands(const Scene& scene, const torch::Tensor& values) {
  auto text = fmt::format(
      "set title {} tc rgb '#222222'\n"
      "set view 68, 32\nset view equal xyz\nunset border\n"
      "unset tics\nset xyplane relative 0\n"
      "set lmargin 0\nset bmargin 3\n"
      "set key bmargin center horizontal samplen 0.5 width -2 tc "
      "rgb '#222222'\n"
      "set colorbox user origin 0.86, 0.3 size 0.025, 0.45\n"
      "set cblabel {} tc rgb '#222222'\n"
      "set cbtics tc rgb '#222222'\n{}",
      in_quotes(scene.title), in_quotes(scene.value_label),
      palette(Scale::kSequential));
  const auto measured = values.masked_select(values == values);
  if (measured.numel() > 1 && (measured.min() < measured.max()).item<bool>()) {
    text += fmt::format("set cbrange [{}:{}]\n",
                        plain(measured.min().item<double>()),
                        plain(measured.max().item<double>()));
  }
  return text;
}

}  // namespace

GnuplotScript write_script(const Scene& scene) {
  GnuplotScript script{500, 420, ""};
  const auto points = scene.points.to(torch::kCPU, torch::kFloat64);
  const auto values = scene.values.to(torch::kCPU, torch::kFloat64);
  script.body = script.file(".dat") + view_commands(scene, values);
  const std::vector<std::string> place{"x", "y", "z"};
  std::string edges, known, unknown;
  for (const auto& line : scene.lines) {
    for (const auto& point : line.to(torch::kCPU, torch::kFloat64).unbind()) {
      edges += row_of(point) + "\n";
    }
    edges += "\n";
  }
  for (int64_t n = 0; n < points.size(0); ++n) {
    const double value = values[n].item<double>();
    if (value == value) {
      known += fmt::format("{}\t{}\n", row_of(points[n]), plain(value));
    } else {
      unknown += row_of(points[n]) + "\n";
    }
  }
  const auto lines = script.block("lines", place, edges);
  const auto not_known = script.block(scene.unknown_name, place, unknown);
  const auto with_value =
      script.block(scene.known_name, {"x", "y", "z", scene.value_label}, known);
  script.body += fmt::format(
      "splot data index {} using 1:2:3 with lines lc rgb '#bbbbbb' notitle, "
      "\\\n     data index {} using 1:2:3 with points pt 6 ps 1.1 lc rgb "
      "'#999999' title {}, \\\n     data index {} using 1:2:3:4 with points "
      "pt 7 ps 1.6 lc palette title {}",
      lines, not_known, in_quotes(scene.unknown_name), with_value,
      in_quotes(scene.known_name));
  for (size_t k = 0; k < scene.marks.size(); ++k) {
    const auto& [name, where] = scene.marks[k];
    script.body += fmt::format(
        ", \\\n     data index {} using 1:2:3 with points pt {} ps 1.8 lw 2 lc "
        "rgb '{}' title {}",
        script.block(name, place, row_of(where) + "\n"), k == 0 ? 2 : 1,
        k == 0 ? "#000000" : hex(series_colour(k)), in_quotes(name));
  }
  script.body += "\n";
  return script;
}

}  // namespace propagator::report
