#include "propagator/explain/attention_maps.h"

#include <torch/utils.h>

#include <algorithm>
#include <limits>

#include "propagator/nn/attention.h"
#include "propagator/nn/space_time_block.h"

namespace propagator::explain {
namespace {

constexpr double kHidden = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kHiddenShown = 3;  // keys behind a block mask

// Every k-th of the numbers 0 … count-1, so that at most `most` are left.
torch::Tensor thinned(int64_t count, int64_t most) {
  return torch::arange(0, count, (count + most - 1) / most, torch::kInt64);
}

std::vector<std::string> counted(int64_t count) {
  std::vector<std::string> names;
  for (int64_t n = 1; n <= count; ++n) names.push_back(std::to_string(n));
  return names;
}

}  // namespace

bool has_attention(torch::nn::Module& model) {
  return std::ranges::any_of(model.modules(), [](const auto& module) {
    return module->template as<nn::MultiHeadAttentionImpl>() != nullptr ||
           module->template as<nn::SpaceTimeBlockImpl>() != nullptr;
  });
}

AttentionMaps attention_maps(torch::nn::Module& model,
                             const tasks::AuditSubject& subject, int64_t most) {
  const torch::NoGradGuard no_grad;
  model.eval();
  AttentionMaps maps;
  std::vector<torch::Tensor> layers;
  std::vector<nn::MultiHeadAttentionImpl*> observed;
  const auto keep = [&](const torch::Tensor& all,
                        const nn::AttentionBias& bias) {
    auto weights = all[0].to(torch::kCPU, torch::kFloat64);  // (H, T, K)
    const int64_t tokens = weights.size(1);
    const auto added = bias.added(tokens, tokens, torch::kFloat64);
    const auto rows = thinned(tokens, most);
    const int64_t keys = std::min(weights.size(2) + kHiddenShown, tokens);
    const auto columns = thinned(keys, most);
    auto full =
        torch::full({weights.size(0), tokens, keys}, kHidden, torch::kFloat64);
    full.slice(2, 0, weights.size(2)).copy_(weights);
    if (added.defined()) {
      full.masked_fill_(added[0].isneginf().slice(2, 0, keys), kHidden);
    }
    layers.push_back(full.index_select(1, rows).index_select(2, columns));
    maps.queries = report::numbers(rows);
    maps.keys = report::numbers(columns);
  };
  for (const auto& module : model.modules()) {
    if (auto* layer = dynamic_cast<nn::MultiHeadAttentionImpl*>(module.get())) {
      layer->observe(keep);
      observed.push_back(layer);
    }
  }
  subject.forward(subject.inputs.slice(0, 0, 1));
  for (auto* layer : observed) layer->observe({});
  if (!layers.empty()) maps.weights = torch::stack(layers);
  return maps;
}

void draw(const AttentionMaps& maps, report::Report& report) {
  const int64_t layers = maps.weights.size(0), heads = maps.weights.size(1);
  const report::Axis y{"query", maps.queries.front(), maps.queries.back()};
  // The heads of a layer side by side, each one unit wide about its number.
  const double half = 0.5 / static_cast<double>(maps.weights.size(3));
  const auto last = static_cast<double>(heads);
  report::HeatMaps grid;
  grid.title = "Attention of every layer and head";
  grid.x = {"head", 0.5 + half, last + 0.5 - half, /*log=*/false, /*ticks=*/1};
  grid.y = y;
  grid.panel_width = std::clamp(120 * last, 300.0, 860.0);
  grid.panel_height = 90;
  std::vector<double> borders;
  for (int64_t h = 1; h < heads; ++h) {
    borders.push_back(static_cast<double>(h) + 0.5);
  }
  for (int64_t n = 0; n < layers; ++n) {
    const auto side_by_side = maps.weights[n].transpose(0, 1).flatten(1);
    const double most = side_by_side.nan_to_num(0).max().item<double>();
    grid.rows.push_back(
        {.label = fmt::format("layer {}", n + 1),
         .panels = {{.title = "", .values = side_by_side, .rulers = borders}},
         .range = std::pair(0.0, most)});
  }
  report.figure("attention", grid,
                "Where each head looks: a row is a query, a column a key, from "
                "the first on the left; grey is hidden by the mask. One scale "
                "a layer.");
  report.explorer(report::MapChoices{
      .label = "attention weight",
      .x = {"key (token)", maps.keys.front(), maps.keys.back()},
      .y = {"query (token)", y.first, y.last},
      .choices = {{"layer", counted(layers)}, {"head", counted(heads)}},
      .maps = maps.weights.flatten(0, 1)});
}

}  // namespace propagator::explain
