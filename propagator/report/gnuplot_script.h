#pragma once

#include <string>

#include "propagator/report/figure.h"

namespace propagator::report {

// A figure on its way to disk.
struct GnuplotScript {
  double width, height;  // pixels, as the page shows it
  std::string body;      // commands that draw it, on whatever device is set

  // A file of numbers: blocks of rows with two empty lines between them.
  struct Data {
    std::string ending;  // of its name: ".dat"
    std::string text = "";
    int64_t blocks = 0;
  };
  std::vector<Data> files = {};

  // Begins another file and returns the command by which `data` means it.
  std::string file(const std::string& ending);
  // Adds a block to the newest file and returns its index there.
  int64_t block(const std::string& title,
                const std::vector<std::string>& columns,
                const std::string& rows);
};

GnuplotScript write_script(const LinePlot& plot);
GnuplotScript write_script(const BarChart& chart);
GnuplotScript write_script(const HeatMaps& maps);
GnuplotScript write_script(const Scene& scene);

// The command that sets the colours of a scale.
std::string palette(Scale scale);

// A label in quotes, whoever wrote it: all that gnuplot would take for markup
// stands for itself, and nothing ends the quotes or the line.
std::string in_quotes(const std::string& text);
// A number as gnuplot reads it, NaN for one that is not finite.
std::string plain(double value);
// 1, 2 or 5 times a power of ten: about `count` of them fill `extent`.
double tick_step(double extent, double count);

}  // namespace propagator::report
