#pragma once

#include <functional>
#include <optional>
#include <span>

#include "propagator/data/split.h"
#include "propagator/report/field_maps.h"
#include "propagator/report/report.h"
#include "propagator/tasks/evaluation.h"
#include "propagator/train/history.h"

namespace propagator::tasks {

// A row of `reproduce`; history and maps are of the seed with the median.
struct ReproducedRow {
  std::string name;        // "wave-pinnsformer"
  nlohmann::json summary;  // as its file under results/ has it
  train::History history;
  // Drawing::maps of its model, which is loaded for it; nothing where that
  // fails.
  std::function<std::optional<report::FieldMaps>()> maps = [] {
    return std::nullopt;
  };
};

// A figure in a folder, and what it shows.
struct NamedFigure {
  std::string name;  // of its files
  report::Figure figure;
  std::string caption;
};

// Of a task that has more to show than its table and its curves.
class Drawing {
 public:
  virtual ~Drawing() = default;

  // What is asked, before any answer.
  virtual void state_problem(report::Report&) const {}
  // Figures of a test: its numbers, none while the run is unfinished, and
  // `cases` of its answers.
  virtual void draw(torch::nn::Module& model, const Evaluation* evaluation,
                    int64_t cases, report::Report& report) = 0;
  // Figures of the model itself: weights, encodings, masks.
  virtual void draw_model(torch::nn::Module&, report::Report&) {}
  // Figures of rows of this task, one or several.
  virtual std::vector<NamedFigure> draw_rows(
      std::span<const ReproducedRow>) const {
    return {};
  }
  // The answer over a plane, for figures of several models.
  virtual std::optional<report::FieldMaps> maps(torch::nn::Module&) {
    return std::nullopt;
  }
  // Cases [first, first + count) as fields over time.
  virtual std::optional<report::FieldSeries> fields(torch::nn::Module&,
                                                    data::Split,
                                                    int64_t /*first*/,
                                                    int64_t /*count*/) {
    return std::nullopt;
  }
  // The answer over space and time where there is one only, not cases.
  virtual std::optional<report::GridSeries> grid(torch::nn::Module&) {
    return std::nullopt;
  }
};

}  // namespace propagator::tasks
