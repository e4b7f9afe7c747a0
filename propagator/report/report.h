#pragma once

#include <variant>

#include "propagator/report/figure.h"
#include "propagator/report/gnuplot.h"
#include "propagator/report/table.h"

namespace propagator::report {

// Matrices of one shape, chosen by name: attention by layer and head.
struct MapChoices {
  std::string label;  // of a value
  Axis x, y;
  struct Choice {
    std::string name;
    std::vector<std::string> values;
  };
  std::vector<Choice> choices;
  torch::Tensor maps;  // (product of the choices, R, C); NaN: hidden
};

// A page in the making: sections of text, tables, figures, an animation,
// explorers. What is added is written to the folder as it comes (figures/
// beside the page); `write` draws the figures and makes the page, one file that
// needs no other and no network.
//
//   Report report("runs/quick", "report.html", "quick", "honest, 26 x 26");
//   report.section("Result");
//   report.table(table);
//   report.figure("loss", LinePlot{…}, "Loss over time.");
//   report.write();
class Report {
 public:
  Report(fs::path folder, std::string file, std::string title,
         std::string subtitle);

  void section(const std::string& title);
  void text(const std::string& paragraph);
  // The result in a sentence, and the numbers it rests on: names and values.
  void headline(const std::string& sentence);
  void tiles(const std::vector<std::pair<std::string, std::string>>& numbers);
  void verdict(bool good, const std::string& text);
  void table(const Table& table);
  // Names and values, for the eye: "device", "cuda:0".
  void facts(const std::vector<std::pair<std::string, std::string>>& facts);
  // Text as it is, folded away behind its summary, or shown.
  void folded(const std::string& summary, const std::string& text);
  void verbatim(const std::string& text);
  // Formulas in MathML, which goes into the page as it is, by what they are:
  // "equations", two of them.
  using Formulas = std::pair<std::string, std::vector<std::string>>;
  void mathematics(const std::vector<Formulas>& all);

  void figure(const std::string& name, const Figure& figure,
              const std::string& caption);
  // The one picture that tells most: it stands where `lead_place` was called,
  // as any other where that has one already.
  void lead_place();
  void lead(const std::string& name, const Figure& figure,
            const std::string& caption);
  // Some cases, below one another, as an animation.
  void animation(const FieldSeries& series, const std::vector<int64_t>& cases,
                 const std::string& name, const std::string& caption);
  // Fields to inspect node by node, time by time.
  void explorer(const FieldSeries& series);
  void explorer(const MapChoices& maps);

  // Returns the page's path. A machine without gnuplot gets a page without
  // figures that says what to install.
  fs::path write();

 private:
  // Where a figure goes once it is drawn.
  struct Place {
    std::string name, caption;
    std::string maps;      // a grid of them as HTML; empty: gnuplot's picture
    bool vector_graphics;  // lines are sharp at any size, fields are pixels
    double width;
  };
  Place placed(const std::string& name, const Figure& figure,
               const std::string& caption);

  void html(std::string text) { parts_.emplace_back(std::move(text)); }
  void drop_empty_section();
  std::string shown(const Place& place) const;
  std::string content() const;

  fs::path folder_;
  std::string file_, title_, subtitle_;
  FigureFolder figures_;
  std::vector<std::variant<std::string, Place>> parts_;
  std::vector<std::pair<std::string, std::string>> sections_;  // id, title
  std::optional<size_t> lead_at_;  // among the parts, while nothing is there
  size_t last_heading_ = 0;        // among the parts, if there is a section
};

}  // namespace propagator::report
