#include <fmt/format.h>
#include <torch/utils.h>

#include "propagator/tasks/density/density.h"

// Pictures of densities.

namespace propagator::tasks {

using data::Split;
using models::as_density;
using torch::Tensor;

namespace {

// Cells along an edge of a picture, and samples drawn into it.
constexpr int64_t kCells = 160;
constexpr int64_t kShownSamples = 800;
// Posteriors that are shown: how many, by how many samples, in how many cells.
constexpr int64_t kShownPosteriors = 3;
constexpr int64_t kPosteriorSamples = 40000;
constexpr int64_t kPosteriorCells = 50;

// The centres of the cells of a window, (cells², 2), row 0 at its top.
Tensor centres_of(const Target::Window& window) {
  const auto along = [](const std::pair<double, double>& ends) {
    return ends.first + (ends.second - ends.first) *
                            (torch::arange(kCells, torch::kFloat64) + 0.5) /
                            static_cast<double>(kCells);
  };
  const auto mesh =
      torch::meshgrid({along(window.y).flip(0), along(window.x)}, "ij");
  return torch::stack({mesh[1].flatten(), mesh[0].flatten()}, 1);
}

// How dense points (N, 2) are in the cells of a square about the origin, row 0
// at its top.
Tensor histogram(const Tensor& points, double reach) {
  const auto cell = [&](const Tensor& x) {
    return ((x / reach + 1) / 2 * static_cast<double>(kPosteriorCells))
        .floor()
        .to(torch::kInt64);
  };
  const auto column = cell(points.select(1, 0)),
             row = cell(-points.select(1, 1));
  const auto inside = (column >= 0) & (column < kPosteriorCells) & (row >= 0) &
                      (row < kPosteriorCells);
  const auto at = (row * kPosteriorCells + column).masked_select(inside);
  const double edge = 2 * reach / static_cast<double>(kPosteriorCells);
  return torch::bincount(at, {}, kPosteriorCells * kPosteriorCells)
             .to(torch::kFloat64)
             .view({kPosteriorCells, kPosteriorCells}) /
         (static_cast<double>(points.size(0)) * edge * edge);
}

}  // namespace

void DensityTask::draw(torch::nn::Module& module, const Evaluation* evaluation,
                       int64_t /*cases*/, report::Report& report) {
  auto& model = as_density(module);
  if (target_ && shape().variables == 2) draw_target_picture(model, report);
  if (inference_) draw_posteriors(model, report);
  if (evaluation && !evaluation->curves.series.empty()) {
    report.figure("calibration", evaluation->curves,
                  "How often the truth is inside regions that should hold it "
                  "so often: the densest ones of all variables together, and "
                  "central intervals of each.");
  }
}

void DensityTask::draw_target_picture(models::Density& model,
                                      report::Report& report) const {
  const auto window = target_->window();
  const auto centres = centres_of(window);
  const auto none = torch::zeros({centres.size(0), 0}, runtime_.options());
  const auto picture = [](const Tensor& log_density) {
    return log_density.exp().view({kCells, kCells});
  };
  const auto truth = picture(target_->log_prob(centres));
  const auto ours =
      picture(log_likelihoods(model, {centres.to(runtime_.options()), none}));
  const auto drawn = model
                         .sample(none.narrow(0, 0, kShownSamples),
                                 RandomStream(0, "figures/samples"))
                         .to(torch::kCPU, torch::kFloat64);
  report::Panel samples{.title = "samples of the model",
                        .values = torch::zeros_like(ours)};
  samples.dots = {report::numbers(drawn.select(1, 0)),
                  report::numbers(drawn.select(1, 1)),
                  {}};
  const report::Axis x{.label = shape().names[0],
                       .first = window.x.first,
                       .last = window.x.second};
  const report::Axis y{.label = shape().names[1],  // from the top
                       .first = window.y.second,
                       .last = window.y.first};
  report.figure(
      "density",
      report::HeatMaps{.x = x,
                       .y = y,
                       .rows = {{.bar_label = "density",
                                 .panels = {{.title = "truth", .values = truth},
                                            {.title = "model", .values = ours},
                                            samples}}}},
      "The distribution that the samples come from, the one that was learned, "
      "and new samples of it.");
}

void DensityTask::draw_posteriors(models::Density& model,
                                  report::Report& report) const {
  const auto& tested = sample(Split::kTest);
  const PrecisionScope scope(runtime_);
  std::vector<Tensor> clouds, truths;
  double reach = 0;
  for (int64_t n = 0; n < std::min(kShownPosteriors, tested.x.size(0)); ++n) {
    const auto given = tested.given.narrow(0, n, 1);
    const auto centre = given.narrow(1, 0, 2).to(torch::kCPU, torch::kFloat64);
    const auto host = [&](const Tensor& x) {
      return x.narrow(1, 0, 2).to(torch::kCPU, torch::kFloat64) - centre;
    };
    clouds.push_back(
        host(model.sample(given.expand({kPosteriorSamples, given.size(1)}),
                          RandomStream(n, "figures/posteriors"))));
    truths.push_back(host(tested.x.narrow(0, n, 1))[0]);
    reach = std::max(reach, 3 * clouds.back().std(0).max().item<double>());
  }
  report::PanelRow row{.bar_label = "density"};
  for (size_t n = 0; n < clouds.size(); ++n) {
    row.panels.push_back({.title = fmt::format("test event {}", n),
                          .values = histogram(clouds[n], reach),
                          .cross = std::pair(truths[n][0].item<double>(),
                                             truths[n][1].item<double>())});
  }
  const auto names = shape().names;
  const auto axis = [&](size_t d, double first, double last) {
    return report::Axis{
        .label = fmt::format("{} - {} of {}", names[d], names[d],
                             inference_->name_of_estimate()),
        .first = first,
        .last = last};
  };
  report.figure("posteriors",
                report::HeatMaps{.x = axis(0, -reach, reach),
                                 .y = axis(1, reach, -reach),
                                 .rows = {row}},
                "Where the first two unknowns of test events are likely to be, "
                "about the classical answer; the cross is the truth.");
}

}  // namespace propagator::tasks
