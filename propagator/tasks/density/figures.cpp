#include <fmt/format.h>
#include <torch/utils.h>

#include <functional>

#include "propagator/tasks/calibration.h"
#include "propagator/tasks/compared_rows.h"
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
// Of those that are known: samples that say how wide they are, cells along an
// axis, points of a curve, and how many standard deviations are shown.
constexpr int64_t kWidthSamples = 2000;
constexpr int64_t kKnownCells = 60, kCurvePoints = 241;
constexpr double kShownWidths = 3.5;

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

// One that is known, and ours: densities at places (N, D).
struct KnownPosterior {
  Tensor centre, reach, truth;  // (D)
  std::function<Tensor(const Tensor&)> ours, exact;
};

report::LinePlot curves_of(const std::vector<KnownPosterior>& all,
                           const std::string& name) {
  report::LinePlot plot{.x = {.label = name}, .y = {.label = "density"}};
  for (size_t n = 0; n < all.size(); ++n) {
    const auto& one = all[n];
    const auto x = one.centre + one.reach * torch::linspace(-1, 1, kCurvePoints,
                                                            torch::kFloat64);
    const auto add = [&](const char* who, const auto& density, auto style) {
      plot.series.push_back({fmt::format("test case {}, {}", n, who),
                             report::numbers(x),
                             report::numbers(density(x.unsqueeze(1))), style});
    };
    add("model", one.ours, report::Series::Style::kLine);
    add("exact", one.exact, report::Series::Style::kDashed);
    plot.events.push_back(
        {one.truth[0].item<double>(), fmt::format("truth {}", n)});
  }
  return plot;
}

report::HeatMaps maps_of(const std::vector<KnownPosterior>& all,
                         const std::vector<std::string>& names) {
  // Each in units of its own widths, and of its own height.
  const auto along = ((torch::arange(kKnownCells, torch::kFloat64) + 0.5) *
                          (2.0 / static_cast<double>(kKnownCells)) -
                      1);
  const auto mesh = torch::meshgrid({-along, along}, "ij");  // the top first
  const auto cells = torch::stack({mesh[1].flatten(), mesh[0].flatten()}, 1);
  report::PanelRow ours{.bar_label = "density / highest"}, exact = ours;
  for (size_t n = 0; n < all.size(); ++n) {
    const auto& one = all[n];
    const auto places = one.centre + cells * one.reach;
    const auto truth = kShownWidths * (one.truth - one.centre) / one.reach;
    const auto right = one.exact(places);
    const auto panel = [&](const char* who, const Tensor& density) {
      return report::Panel{
          .title = fmt::format("test case {}, {}", n, who),
          .values = (density / right.max()).view({kKnownCells, kKnownCells}),
          .cross = std::pair(truth[0].item<double>(), truth[1].item<double>())};
    };
    ours.panels.push_back(panel("model", one.ours(places)));
    exact.panels.push_back(panel("exact", right));
  }
  ours.range = exact.range =
      std::pair(0.0, std::max(report::limits(ours).second, 1.0));
  const auto axis = [&](size_t d, double first, double last) {
    return report::Axis{.label = fmt::format("{} (widths)", names[d]),
                        .first = first,
                        .last = last};
  };
  return {.x = axis(0, -kShownWidths, kShownWidths),
          .y = axis(1, kShownWidths, -kShownWidths),
          .rows = {ours, exact}};
}

}  // namespace

void DensityTask::draw(torch::nn::Module& module, const Evaluation* evaluation,
                       int64_t /*cases*/, report::Report& report) {
  auto& model = as_density(module);
  if (target_ && shape().variables == 2) draw_target_picture(model, report);
  if (inference_ && inference_->log_evidence(observed_.narrow(0, 0, 1))) {
    draw_known_posteriors(model, report);
  } else if (inference_) {
    draw_posteriors(model, report);
  }
  if (evaluation && evaluation->numbers.contains("rank_histogram")) {
    std::vector<std::pair<std::string, std::vector<double>>> all;
    for (const auto& name : shape().names) {
      all.emplace_back(name, evaluation->numbers.at("rank_histogram").at(name));
    }
    report.figure("ranks", rank_plot(all, evaluation->numbers.at("samples")),
                  "How many samples of its posterior are below each truth: "
                  "if posteriors are right, every rank is as likely. Heaped in "
                  "the middle, posteriors are too wide; at the ends, too "
                  "narrow; at one end, off to a side.");
  }
  if (evaluation && !evaluation->curves.series.empty()) {
    report.figure("calibration", evaluation->curves,
                  "How often the truth is inside regions that should hold it "
                  "so often: the densest ones of all variables together, and "
                  "central intervals of each.");
  }
}

std::optional<report::FieldMaps> DensityTask::maps(torch::nn::Module& module) {
  if (!target_ || shape().variables != 2) return std::nullopt;
  const auto window = target_->window();
  const auto centres = centres_of(window);
  const auto none = torch::zeros({centres.size(0), 0}, runtime_.options());
  const auto picture = [](const Tensor& log_density) {
    return log_density.exp().view({1, kCells, kCells});
  };
  const auto ours = log_likelihoods(as_density(module),
                                    {centres.to(runtime_.options()), none});
  return report::FieldMaps{.subject = config::name_of(target_options_.name),
                           .model = model_name_,
                           .names = {"density"},
                           .x = {.label = shape().names[0],
                                 .first = window.x.first,
                                 .last = window.x.second},
                           .y = {.label = shape().names[1],  // from the top
                                 .first = window.y.second,
                                 .last = window.y.first},
                           .answer = picture(ours),
                           .truth = picture(target_->log_prob(centres)),
                           .truth_name = "truth"};
}

std::vector<NamedFigure> DensityTask::draw_rows(
    std::span<const ReproducedRow> rows) const {
  std::vector<NamedFigure> figures;
  for (const auto& target : compared_rows(rows)) {
    figures.push_back({"density-" + target.name,
                       report::compare(target.name, target.rows),
                       "The densities that each row's seed with the median has "
                       "learned, and how far they are from the truth."});
  }
  return figures;
}

void DensityTask::draw_target_picture(models::Density& model,
                                      report::Report& report) {
  const auto maps = *this->maps(model);
  const auto none = torch::zeros({kShownSamples, 0}, runtime_.options());
  const auto drawn = model.sample(none, RandomStream(0, "figures/samples"))
                         .to(torch::kCPU, torch::kFloat64);
  report::Panel samples{.title = "samples of the model",
                        .values = torch::zeros_like(maps.answer[0])};
  samples.dots = {report::numbers(drawn.select(1, 0)),
                  report::numbers(drawn.select(1, 1)),
                  {}};
  auto figure = report::figure_of("", maps);
  figure.rows = {{.bar_label = "density",
                  .panels = {{.title = "truth", .values = maps.truth[0]},
                             {.title = "model", .values = maps.answer[0]},
                             samples}}};
  report.lead(
      "density", figure,
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
  report.lead("posteriors",
              report::HeatMaps{.x = axis(0, -reach, reach),
                               .y = axis(1, reach, -reach),
                               .rows = {row}},
              "Where the first two unknowns of test events are likely to be, "
              "about the classical answer; the cross is the truth.");
}

void DensityTask::draw_known_posteriors(models::Density& model,
                                        report::Report& report) const {
  const auto& tested = sample(Split::kTest);
  const auto evidence = *inference_->log_evidence(
      observed_.narrow(0, 0, std::min(kShownPosteriors, tested.x.size(0))));
  const PrecisionScope scope(runtime_);
  std::vector<KnownPosterior> shown;
  for (int64_t n = 0; n < evidence.size(0); ++n) {
    const auto given = tested.given.narrow(0, n, 1);
    const auto rows = [given](int64_t count) {
      return given.expand({count, given.size(1)});
    };
    const auto host = [](const Tensor& x) {
      return x.to(torch::kCPU, torch::kFloat64);
    };
    const auto cloud = host(model.sample(
        rows(kWidthSamples), RandomStream(n, "figures/posteriors")));
    shown.push_back(
        {.centre = inference_->supports().from_line(
             host(given.narrow(1, 0, tested.x.size(1))))[0],
         .reach = kShownWidths * cloud.std(0),
         .truth = host(tested.x[n]),
         .ours =
             [this, &model, rows](const Tensor& x) {
               return log_likelihoods(
                          model, {x.to(runtime_.options()), rows(x.size(0))})
                   .exp();
             },
         .exact =
             [this, n, evidence](const Tensor& x) {
               const auto seen = observed_.narrow(0, n, 1).expand(
                   {x.size(0), observed_.size(1)});
               return (inference_->log_joint(x, seen) - evidence[n]).exp();
             }});
  }
  if (shape().variables == 1) {
    report.lead("posteriors", curves_of(shown, shape().names[0]),
                "How likely values of the unknown are for some test cases: "
                "by the model, and exactly. The lines are the truths.");
  } else {
    report.figure(
        "posteriors", maps_of(shown, shape().names),
        fmt::format("Where the unknowns of test cases are likely to be, about "
                    "the answer by {}, in standard deviations of each "
                    "posterior: by the model, and exactly. The cross is the "
                    "truth.",
                    inference_->name_of_estimate()));
  }
}

}  // namespace propagator::tasks
