#include "propagator/explain/learned_propagator.h"

#include <ATen/ops/linalg_svdvals.h>
#include <torch/utils.h>

#include "propagator/core/progress.h"
#include "propagator/core/random.h"
#include "propagator/explain/learned_step.h"

namespace propagator::explain {
namespace {

using report::HeatMaps;
using report::LinePlot;
using report::PanelRow;
using report::Series;

// States that go through the model at once.
constexpr int64_t kBatch = 32;
// Fewer random directions than this say too little; more than the second do not
// fit in memory with their responses.
constexpr int64_t kFewestDirections = 3;
constexpr int64_t kMostDirections = 1024;

// J_t d for directions (N, R, C) → (N, times, R, C), in float64. The step
// balances rounding, ε/h, against curvature, h².
torch::Tensor model_response(const tasks::PropagatorSubject& subject,
                             const torch::Tensor& directions) {
  const bool single = subject.state.scalar_type() == torch::kFloat32;
  const double step = single ? 1e-2 : 1e-4;
  const auto size = directions.abs().amax({1, 2}, /*keepdim=*/true);
  const auto change = directions / size * step;
  // Both ways in one pass: a rollout's steps are as many for one as for two.
  const auto both =
      subject
          .model(torch::cat({subject.state + change, subject.state - change}))
          .to(torch::kFloat64)
          .chunk(2);
  return (both[0] - both[1]) / (2 * step) *
         size.to(torch::kFloat64).unsqueeze(1);
}

// What becomes of directions: (N, times, R, C) each, in float64 on the CPU.
struct Responses {
  torch::Tensor model, truth, given;

  Responses slice(int64_t begin, int64_t end) const {
    return {model.slice(0, begin, end), truth.slice(0, begin, end),
            given.slice(0, begin, end)};
  }
  LearnedPropagator::Distance distance() const {
    const auto norms = [](const torch::Tensor& columns) {
      return columns.square().sum({0, 2, 3}).sqrt();  // (times)
    };
    const auto wrong = norms(model - truth);
    return {report::numbers(wrong / norms(given - truth)),
            report::numbers(wrong / norms(truth))};
  }
};

Responses respond(const tasks::PropagatorSubject& subject,
                  const torch::Tensor& directions) {
  std::vector<torch::Tensor> model, truth, given;
  Progress progress("learned propagator", directions.size(0));
  for (int64_t n = 0; n < directions.size(0); n += kBatch) {
    const auto part = directions.slice(0, n, n + kBatch);
    const auto exact = part.to(torch::kFloat64);
    model.push_back(model_response(subject, part).cpu());
    truth.push_back(subject.truth(exact).cpu());
    given.push_back(subject.given(exact).cpu());
    progress.update(n + part.size(0));
  }
  return {torch::cat(model), torch::cat(truth), torch::cat(given)};
}

// A unit change at every node, or random signs at all of them.
torch::Tensor choose_directions(const tasks::PropagatorSubject& subject,
                                int64_t seed, double affordable) {
  const int64_t rows = subject.state.size(0), cols = subject.state.size(1);
  const int64_t nodes = rows * cols;
  if (nodes <= kMostDirections && static_cast<double>(nodes) <= affordable) {
    return torch::eye(nodes, subject.state.options()).view({nodes, rows, cols});
  }
  const auto count = static_cast<int64_t>(
      std::clamp<double>(affordable, kFewestDirections, kMostDirections));
  return RandomStream(seed, "propagator")
      .uniform({count, rows, cols}, -1, 1, torch::kFloat64)
      .sign()
      .to(subject.state.options());
}

std::string percent(double share) {
  return fmt::format("{:.3g} %", 100 * share);
}

}  // namespace

std::string LearnedPropagator::verdict() const {
  return fmt::format(
      "at frame {} its error is {} in the directions of the data, {} {} "
      "(100 % is a model that keeps the last given frame); it differs from "
      "the true one by {} and {}",
      times.back(), percent(data.error.back()), percent(node.error.back()),
      every_node() ? "over changes at single nodes"
                   : fmt::format("over {} random directions", directions),
      percent(data.difference.back()), percent(node.difference.back()));
}

nlohmann::json LearnedPropagator::to_json() const {
  return {{"verdict", verdict()},     {"times", times},
          {"data_error", data.error}, {"data_difference", data.difference},
          {"node_error", node.error}, {"node_difference", node.difference},
          {"directions", directions}, {"nodes", nodes}};
}

LearnedPropagator learn_propagator(const tasks::PropagatorSubject& subject,
                                   int64_t seed, double max_work,
                                   const std::vector<int64_t>& at) {
  const torch::NoGradGuard no_grad;
  LearnedPropagator result;
  result.times = subject.times;
  const int64_t rows = subject.state.size(0), cols = subject.state.size(1);
  result.nodes = rows * cols;
  auto source = torch::zeros_like(subject.state);
  if (at.empty()) {
    source[rows / 2][cols / 3] = 1;
  } else {
    expect_cell(at, {rows, cols});
    source[at[0]][at[1]] = 1;
  }

  // Two states for each direction; a quarter of them for the data's.
  const double affordable = max_work / (2 * subject.work);
  const double for_data =
      std::min<double>(std::max<double>(kFewestDirections, affordable / 4),
                       static_cast<double>(subject.ensemble.size(0)));
  const auto data =
      subject.ensemble.slice(0, 0, static_cast<int64_t>(for_data));
  const auto nodes = choose_directions(
      subject, seed, affordable - 1 - static_cast<double>(data.size(0)));
  result.directions = nodes.size(0);
  const auto all =
      respond(subject, torch::cat({source.unsqueeze(0), data, nodes}));
  const int64_t first_node = 1 + data.size(0);
  result.source_model = all.model[0];
  result.source_truth = all.truth[0];
  result.data_model = all.model[1];
  result.data_truth = all.truth[1];
  result.data = all.slice(1, first_node).distance();
  const auto of_nodes = all.slice(first_node, all.model.size(0));
  result.node = of_nodes.distance();

  const auto middle = static_cast<int64_t>(subject.times.size() / 2);
  result.spectrum_time = subject.times[middle];
  // Random signs carry each singular value about √directions times.
  const double scale =
      result.every_node()
          ? 1
          : 1 / std::sqrt(static_cast<double>(result.directions));
  const auto spectrum = [&](const torch::Tensor& columns) {
    return at::linalg_svdvals(columns.select(1, middle).flatten(1)) * scale;
  };
  result.spectrum_model = spectrum(of_nodes.model);
  result.spectrum_truth = spectrum(of_nodes.truth);
  return result;
}

namespace {

// Truth, model and their difference, a row for each of three times.
HeatMaps responses(const LearnedPropagator& propagator,
                   const tasks::PropagatorSubject& subject,
                   const torch::Tensor& truth, const torch::Tensor& model) {
  HeatMaps maps{.title = "",
                .x = subject.x,
                .y = subject.y,
                .panel_width = 190,
                .panel_height = 190};
  const auto last = static_cast<int64_t>(propagator.times.size()) - 1;
  for (const int64_t n : {int64_t{1}, last / 2, last}) {
    maps.rows.push_back({.label = fmt::format("frame {}", propagator.times[n]),
                         .bar_label = subject.quantity,
                         .scale = report::Scale::kDiverging,
                         .panels = {{"true propagator", truth[n]},
                                    {"learned", model[n]},
                                    {"difference", model[n] - truth[n]}}});
  }
  return maps;
}

}  // namespace

void draw(const LearnedPropagator& p, const tasks::PropagatorSubject& subject,
          report::Report& report) {
  const std::vector<double> times(p.times.begin(), p.times.end());
  const std::string changes = p.every_node() ? "single nodes" : "random";
  const auto dashed = Series::Style::kDashed;
  report.figure(
      "propagator-error",
      LinePlot{
          .title = "Learned propagator against the true one",
          .x = {.label = "frame", .log = true},
          .y = {.label = "share (1 is 100 %)", .log = true},
          .series = {{"data: error", times, p.data.error},
                     {changes + ": error", times, p.node.error},
                     {"data: difference", times, p.data.difference, dashed},
                     {changes + ": difference", times, p.node.difference,
                      dashed}}},
      "How far the model's response to a small change of frame 0 is from the "
      "true one. Error: as a share of what a model misses that keeps the last "
      "given frame. Difference: as a share of the true response. The training "
      "data vary in few directions; of changes at single nodes the model was "
      "told nothing.");
  auto data = responses(p, subject, p.data_truth, p.data_model);
  data.title = "Response to the difference of two training cases";
  report.figure("propagator-data", data,
                "A change of frame 0 such as the training data contain, "
                "carried to later frames; one scale a row.");
  auto source = responses(p, subject, p.source_truth, p.source_model);
  source.title = "Response to a point source";
  report.figure("propagator-source", source,
                "One column of each propagator: one node of frame 0 is warmer "
                "by one unit. The training data contain no such thing.");
  const auto index = [](const torch::Tensor& values) {
    return report::numbers(
        torch::arange(1, values.numel() + 1, torch::kFloat64));
  };
  report.figure(
      "propagator-spectrum",
      LinePlot{
          .title = fmt::format("Singular values at frame {}", p.spectrum_time),
          .x = {.label = "number"},
          .y = {.label = "singular value", .log = true},
          .series = {{"true propagator", index(p.spectrum_truth),
                      report::numbers(p.spectrum_truth.clamp_min(1e-12))},
                     {"learned", index(p.spectrum_model),
                      report::numbers(p.spectrum_model.clamp_min(1e-12))}}},
      p.every_node()
          ? "How strongly each propagator carries its directions, strongest "
            "first: edges stay, fine patterns die out. (Values below 1e-12 "
            "are drawn there.)"
          : fmt::format("How strongly each propagator carries {} random "
                        "directions (all of them would take too long here).",
                        p.directions));
}

}  // namespace propagator::explain
