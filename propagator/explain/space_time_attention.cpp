#include "propagator/explain/space_time_attention.h"

#include <torch/utils.h>

#include <limits>

#include "propagator/explain/field_planes.h"
#include "propagator/explain/learned_step.h"
#include "propagator/models/space_time.h"

namespace propagator::explain {
namespace {

using torch::Tensor;

constexpr size_t kPanelsOfARow = 4;

models::SpaceTime* space_time_in(torch::nn::Module& model) {
  for (const auto& module : model.modules()) {
    if (auto* net = dynamic_cast<models::SpaceTime*>(module.get())) return net;
  }
  return nullptr;
}

// Of weights (layers, n).
std::vector<double> effective_number(const Tensor& weights) {
  return report::numbers((-torch::xlogy(weights, weights).sum(1)).exp());
}

// Weights (T, window) of the last frames up to each, as (T, T).
Tensor by_frame(const Tensor& weights) {
  const int64_t frames = weights.size(0), window = weights.size(1);
  auto all =
      torch::full({frames, frames}, std::numeric_limits<double>::quiet_NaN(),
                  torch::kFloat64);
  for (int64_t t = 0; t < frames; ++t) {
    const int64_t seen = std::min(window, t + 1);
    all[t]
        .narrow(0, t + 1 - seen, seen)
        .copy_(weights[t].narrow(0, window - seen, seen));
  }
  return all;
}

// Layers as panels, some a row.
std::vector<report::PanelRow> in_rows(const std::vector<report::Panel>& panels,
                                      double most) {
  std::vector<report::PanelRow> rows;
  for (size_t n = 0; n < panels.size(); n += kPanelsOfARow) {
    report::PanelRow row{.bar_label = "weight", .range = std::pair(0.0, most)};
    for (size_t k = n; k < std::min(n + kPanelsOfARow, panels.size()); ++k) {
      row.panels.push_back(panels[k]);
    }
    rows.push_back(row);
  }
  return rows;
}

report::Axis patch_axis(const report::Axis& of, int64_t patches) {
  return {"patch along " + of.label, 0, static_cast<double>(patches - 1)};
}

std::string layer_name(int64_t n) { return fmt::format("layer {}", n + 1); }

}  // namespace

std::vector<double> SpaceTimeAttention::patches_attended() const {
  return effective_number(space.flatten(1));
}

std::vector<double> SpaceTimeAttention::frames_attended() const {
  return effective_number(time.select(1, time.size(1) - 1).nan_to_num(0));
}

nlohmann::json SpaceTimeAttention::to_json() const {
  return {{"patches", patches},
          {"query", query},
          {"patches_attended", patches_attended()},
          {"frames_attended", frames_attended()}};
}

std::optional<SpaceTimeAttention> space_time_attention(
    torch::nn::Module& model, const tasks::StepSubject& subject,
    const std::vector<int64_t>& cell) {
  auto* net = space_time_in(model);
  if (net == nullptr) return std::nullopt;
  const torch::NoGradGuard no_grad;
  const auto nodes = cells_along(subject);
  SpaceTimeAttention found;
  found.block = net->shape().block > 0;
  if (!cell.empty()) expect_cell(cell, nodes);
  int64_t number = 0;
  for (size_t d = 0; d < nodes.size(); ++d) {
    found.patches.push_back(nodes[d] / net->patch());
    found.query.push_back((cell.empty() ? nodes[d] / 2 : cell[d]) /
                          net->patch());
    number = number * found.patches[d] + found.query[d];
  }
  std::vector<Tensor> space, time;
  const auto mean_of_heads = [](const Tensor& weights) {  // (1, T, H, n)
    return weights[0].to(torch::kCPU, torch::kFloat64).mean(1);
  };
  for (size_t n = 0; n < net->layers(); ++n) {
    net->block(n)->observe(nn::SpaceTimeObserver{
        .patch = number,
        .space =
            [&](const Tensor& weights) {
              space.push_back(mean_of_heads(weights)[-1].view(found.patches));
            },
        .time =
            [&](const Tensor& weights) {
              const auto mean = mean_of_heads(weights);
              time.push_back(found.block ? mean : by_frame(mean));
            }});
  }
  subject.step(subject.window.unsqueeze(0));
  for (size_t n = 0; n < net->layers(); ++n) net->block(n)->observe({});
  found.space = torch::stack(space);
  found.time = torch::stack(time);
  return found;
}

void draw(const SpaceTimeAttention& a, const tasks::StepSubject& subject,
          report::Report& report) {
  const int64_t layers = a.space.size(0);
  const auto caption = fmt::format(
      "Where patch ({}) of the {} frame attends to in that frame, as a mean "
      "over heads.",
      fmt::join(a.query, ", "), a.block ? "first forecast" : "last given");
  std::vector<report::Panel> panels;
  if (a.patches.size() == 1) {
    report::LinePlot plot{
        .title = "Attention over space",
        .x = {.label = "patch"},
        .y = {.label = "weight"},
        .events = {{static_cast<double>(a.query[0]), "the patch itself"}}};
    const auto x =
        report::numbers(torch::arange(a.patches[0], torch::kFloat64));
    for (int64_t n = 0; n < layers; ++n) {
      plot.series.push_back({layer_name(n), x, report::numbers(a.space[n])});
    }
    report.figure("attention-space", plot, caption);
  } else {
    auto maps = plane_maps(subject, "Attention over space");
    maps.x = patch_axis(subject.axes[0], a.patches[0]);
    maps.y = patch_axis(subject.axes[1], a.patches[1]);
    const std::pair here(static_cast<double>(a.query[0]),
                         static_cast<double>(a.query[1]));
    for (int64_t n = 0; n < layers; ++n) {
      panels.push_back({.title = layer_name(n),
                        .values = plane_at(a.space[n], a.query),
                        .cross = here});
    }
    maps.rows = in_rows(panels, a.space.max().item<double>());
    report.figure("attention-space", maps, caption);
  }
  if (a.time.size(2) == 1) return;
  const auto last_of = [&](int64_t dim) {
    return static_cast<double>(a.time.size(dim) - 1);
  };
  report::HeatMaps maps{.title = "Attention over time",
                        .x = {"attended frame", 0, last_of(2), false, 1},
                        .y = {"frame", 0, last_of(1), false, 1},
                        .panel_width = 150,
                        .panel_height = 150};
  panels.clear();
  for (int64_t n = 0; n < layers; ++n) {
    panels.push_back({.title = layer_name(n), .values = a.time[n]});
  }
  maps.rows = in_rows(panels, 1);
  report.figure(
      "attention-time", maps,
      a.block ? "Which given frames the same patch attends to, of each of "
                "them and of the first that is forecast, the last row, as a "
                "mean over heads."
              : "Which given frames the same patch attends to, of itself and "
                "those before it, as a mean over heads; grey is hidden.");
}

}  // namespace propagator::explain
