#pragma once

#include "propagator/core/files.h"
#include "propagator/report/figure.h"

namespace propagator::report {

// A folder of figures, each kept as its data (NAME.dat; of a grid of panels one
// file a row, NAME-1.dat …) and script (NAME.gp) beside NAME.png and NAME.svg,
// so that a reader can restyle it for a paper: `gnuplot NAME.gp` draws it
// again.
class FigureFolder {
 public:
  explicit FigureFolder(fs::path path) : path_(std::move(path)) {}

  // Writes data and script; pictures of an earlier figure of that name go.
  // Returns the width in pixels at which the figure is meant to be seen.
  double add(const std::string& name, const Figure& figure);
  // Draws what was added, as many at a time as the machine has cores. Without
  // gnuplot nothing is drawn; a script that gnuplot refuses is a
  // RuntimeError that says why.
  void draw();

  const fs::path& path() const { return path_; }
  static bool can_draw();

 private:
  fs::path path_;
  std::vector<std::string> waiting_;
};

}  // namespace propagator::report
