#include <cmath>
#include <numbers>

#include "propagator/explain/field_planes.h"
#include "propagator/explain/learned_step.h"

namespace propagator::explain {
namespace {

using report::HeatMaps;
using report::LinePlot;
using report::PanelRow;
using report::Scale;
using torch::Tensor;

constexpr int64_t kMostSide = 256;       // cells of a matrix that is drawn
constexpr int64_t kMostShown = 4;        // channels of a figure
constexpr int64_t kMostFramesShown = 5;  // of a window
constexpr const char* kResponse = "response";

// P, or J of the last given frame.
Tensor learned_of(const LearnedStep& step) {
  return step.truth.defined() ? step.carried
                              : step.rows.select(1, step.given - 1);
}

std::string of_what(const LearnedStep& step) {
  if (step.truth.defined() && step.given > 1) {
    return "a change of the first given frame, which the true step carries "
           "through the other given ones";
  }
  return "a change of the last given frame";
}

// (C, C, nodes…): of each channel of the shown cell, from each channel.
Tensor of_cell(const LearnedStep& step, const Tensor& rows) {
  auto shape = step.nodes;
  shape.insert(shape.begin(), step.channels);
  shape.push_back(step.channels);
  return rows.narrow(0, step.shown * step.channels, step.channels)
      .reshape(shape)
      .movedim(-1, 1);
}

// The learned one, the true one and their difference; or of several channels
// each from each. `image` makes the matrices of (C, C, …).
std::vector<PanelRow> rows_of_maps(
    const LearnedStep& step, const tasks::StepSubject& subject,
    const Tensor& learned, const Tensor& truth,
    const std::function<Tensor(const Tensor&)>& image) {
  std::vector<PanelRow> rows;
  const int64_t shown = std::min(step.channels, kMostShown);
  for (int64_t to = 0; to < shown; ++to) {
    PanelRow row{.bar_label = kResponse, .scale = Scale::kDiverging};
    if (step.channels > 1)
      row.label = subject.channels[static_cast<size_t>(to)];
    for (int64_t from = 0; from < shown; ++from) {
      const auto one = image(learned[to][from]);
      row.panels.push_back(
          {step.channels > 1
               ? "from " + subject.channels[static_cast<size_t>(from)]
               : "learned",
           one});
      if (!truth.defined()) continue;
      const auto exact = image(truth[to][from]);
      row.panels.push_back({"true", exact});
      row.panels.push_back({"difference", one - exact});
    }
    rows.push_back(row);
  }
  return rows;
}

// Of one axis: all cells, or those about the one to show.
void draw_matrix(const LearnedStep& step, const tasks::StepSubject& subject,
                 report::Report& report) {
  const int64_t nodes = step.nodes[0], side = std::min(nodes, kMostSide);
  const int64_t begin =
      std::clamp<int64_t>(step.cell[0] - side / 2, 0, nodes - side);
  // (C, C, answers, changes)
  const auto blocks = [&](const Tensor& rows) {
    if (!rows.defined()) return Tensor();
    return rows.view({nodes, step.channels, nodes, step.channels})
        .permute({1, 3, 0, 2})
        .slice(2, begin, begin + side)
        .slice(3, begin, begin + side);
  };
  const auto& axis = subject.axes[0];
  const double spacing =
      (axis.last - axis.first) / static_cast<double>(nodes - 1);
  const double first = axis.first + spacing * static_cast<double>(begin);
  const double last = first + spacing * static_cast<double>(side - 1);
  HeatMaps maps{.title = "The learned step as a matrix",
                .x = {axis.label + " of the change", first, last},
                .y = {axis.label + " of the answer", first, last}};
  maps.rows =
      rows_of_maps(step, subject, blocks(learned_of(step)), blocks(step.truth),
                   [](const Tensor& block) { return block; });
  report.figure(
      "step-matrix", maps,
      fmt::format("What the next frame takes from {}: a row is a "
                  "cell of the next frame, a column the cell that "
                  "is changed by one unit.{}",
                  of_what(step),
                  side < nodes ? " Cells about the chosen one." : ""));
}

void draw_cell(const LearnedStep& step, const tasks::StepSubject& subject,
               report::Report& report) {
  const auto learned = of_cell(step, learned_of(step));
  const auto truth =
      step.truth.defined() ? of_cell(step, step.truth) : Tensor();
  const auto caption = fmt::format(
      "What cell ({}) of the next frame takes from {}, cell by cell.",
      fmt::join(step.cell, ", "), of_what(step));
  if (step.nodes.size() > 1) {
    auto maps = plane_maps(subject, "What a single cell takes from where");
    maps.rows = rows_of_maps(
        step, subject, learned, truth,
        [&](const Tensor& field) { return plane_at(field, step.cell); });
    for (auto& row : maps.rows) {
      for (auto& panel : row.panels) {
        panel.cross = place_of(step.cell, step.nodes, subject);
      }
    }
    report.figure("step-cell", maps, caption);
    return;
  }
  const auto& axis = subject.axes[0];
  const auto x = report::numbers(
      torch::linspace(axis.first, axis.last, step.nodes[0], torch::kFloat64));
  LinePlot plot{.title = "What a single cell takes from where",
                .x = {.label = axis.label},
                .y = {.label = kResponse}};
  const int64_t shown = std::min(step.channels, kMostShown);
  for (int64_t from = 0; from < shown; ++from) {
    plot.series.push_back(
        {step.channels > 1
             ? fmt::format("{} from {}", subject.channels[0],
                           subject.channels[static_cast<size_t>(from)])
             : "learned",
         x, report::numbers(learned[0][from])});
  }
  if (truth.defined()) {
    plot.series.push_back({"true", x, report::numbers(truth[0][0]),
                           report::Series::Style::kDashed});
  }
  report.figure("step-cell", plot, caption);
}

// From which of the given frames a cell takes what.
void draw_window(const LearnedStep& step, const tasks::StepSubject& subject,
                 report::Report& report) {
  const int64_t shown = std::min(step.channels, kMostShown);
  const std::string title = "What a single cell takes from each given frame";
  const auto caption = fmt::format(
      "The derivative of cell ({}) of the next frame with respect to each "
      "given frame while the others stay as they are. Frames that follow one "
      "another say much the same, and a model may take it from any of them.",
      fmt::join(step.cell, ", "));
  HeatMaps maps{.title = title};
  if (step.nodes.size() == 1) {
    maps.x = subject.axes[0];
    maps.y = {"given frame", 0, static_cast<double>(step.given - 1), false, 1};
    maps.panel_width = 420;
    maps.panel_height =
        std::clamp(24.0 * static_cast<double>(step.given), 60.0, 300.0);
  } else {
    maps = plane_maps(subject, title);
  }
  for (int64_t c = 0; c < shown; ++c) {
    PanelRow row{.bar_label = kResponse, .scale = Scale::kDiverging};
    if (step.channels > 1) row.label = subject.channels[static_cast<size_t>(c)];
    std::vector<Tensor> frames;
    const int64_t first =
        step.nodes.size() == 1
            ? 0
            : std::max<int64_t>(0, step.given - kMostFramesShown);
    for (int64_t k = first; k < step.given; ++k) {
      frames.push_back(of_cell(step, step.rows.select(1, k))[c][c]);
      if (step.nodes.size() == 1) continue;
      row.panels.push_back({.title = fmt::format("frame {}", k),
                            .values = plane_at(frames.back(), step.cell),
                            .cross = place_of(step.cell, step.nodes, subject)});
    }
    if (step.nodes.size() == 1) row.panels = {{"", torch::stack(frames)}};
    maps.rows.push_back(row);
  }
  report.figure("step-window", maps, caption);
}

void draw_eigenvalues(const LearnedStep& step, report::Report& report) {
  constexpr int kCorners = 120;
  report::Series circle{.name = "modulus 1",
                        .style = report::Series::Style::kDashed};
  for (int n = 0; n <= kCorners; ++n) {
    const double angle = 2 * std::numbers::pi * n / kCorners;
    circle.x.push_back(std::cos(angle));
    circle.y.push_back(std::sin(angle));
  }
  const auto points = [](const char* name, const Tensor& values) {
    return report::Series{name, report::numbers(torch::real(values)),
                          report::numbers(torch::imag(values)),
                          report::Series::Style::kPoints};
  };
  LinePlot plot{.title = "Eigenvalues of the learned step",
                .x = {.label = "real part"},
                .y = {.label = "imaginary part"},
                .series = {points("learned", step.eigenvalues), circle},
                .square = true};
  if (step.true_eigenvalues.defined()) {
    plot.series.insert(plot.series.begin() + 1,
                       points("true", step.true_eigenvalues));
  }
  report.figure(
      "step-eigenvalues", plot,
      fmt::format(
          "Eigenvalues of {}. Outside the circle small changes grow from step "
          "to step, inside they die out; the largest modulus is {:.5g}.{}{}",
          step.given == 1 ? "the derivative of the next frame by the frame"
                          : "the map from a window of given frames to that one "
                            "frame later",
          step.largest(),
          step.true_eigenvalues.defined()
              ? " A true one covers a learned one that agrees with it."
              : "",
          step.given > 1 && step.true_eigenvalues.defined()
              ? " The physics decides as many as a frame has numbers; the "
                "others belong to windows whose frames do not follow one "
                "another."
              : ""));
}

}  // namespace

void draw(const LearnedStep& step, const tasks::StepSubject& subject,
          report::Report& report) {
  if (step.nodes.size() == 1 && step.every_cell()) {
    draw_matrix(step, subject, report);
  }
  draw_cell(step, subject, report);
  if (step.given > 1) draw_window(step, subject, report);
  if (step.eigenvalues.defined()) draw_eigenvalues(step, report);
}

}  // namespace propagator::explain
