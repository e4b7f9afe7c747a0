#include "propagator/tasks/reconstruct/attention.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <limits>

#include "propagator/models/pgt.h"
#include "propagator/nn/attention.h"
#include "propagator/report/field_maps.h"

namespace propagator::tasks {
namespace {

using torch::Tensor;

// Heads and layers in one row of panels.
constexpr int64_t kShown = 3;

Tensor kept(const Tensor& weights) {
  return weights.detach().to(torch::kCPU, torch::kFloat64);
}

// Shows what a network attends to, while it lives.
class Observed {
 public:
  Observed(models::Pgt& network, const models::Pgt::Observer& points,
           const nn::MultiHeadAttentionImpl::Observer& sensors)
      : network_(network) {
    network_.watch(points);
    for (auto* layer : layers()) layer->observe(sensors);
  }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;
  ~Observed() {
    network_.watch({});
    for (auto* layer : layers()) layer->observe({});
  }

 private:
  std::vector<nn::MultiHeadAttentionImpl*> layers() const {
    std::vector<nn::MultiHeadAttentionImpl*> all;
    for (const auto& part : network_.modules()) {
      auto* layer = dynamic_cast<nn::MultiHeadAttentionImpl*>(part.get());
      if (layer != nullptr) all.push_back(layer);
    }
    return all;
  }

  models::Pgt& network_;
};

models::Pgt* find_pgt(models::FieldNet& model) {
  for (const auto& part : model.modules()) {
    if (auto* found = dynamic_cast<models::Pgt*>(part.get())) return found;
  }
  return nullptr;
}

// Weights (M) as points of a panel; a weight of zero is no value.
report::Panel panel_of(const std::string& title, const Tensor& weights,
                       const Tensor& places, int64_t sensor) {
  constexpr int64_t kGround = 10;  // cells a side, none with a value
  const double none = std::numeric_limits<double>::quiet_NaN();
  const auto number = [&](int64_t axis) {
    return report::numbers(places.select(1, axis));
  };
  report::Panel panel{
      .title = title,
      .values = torch::full({kGround, kGround}, none, torch::kFloat64),
      .dots = {number(0), number(1),
               report::numbers(weights.masked_fill(weights == 0, none))}};
  const auto at = static_cast<size_t>(sensor);
  panel.cross = {panel.dots.x[at], panel.dots.y[at]};
  return panel;
}

// An axis whose ten cells fill what another one's nodes lie on.
report::Axis of_ground(const report::Axis& axis) {
  const double part = (axis.last - axis.first) / 20;
  return {.label = axis.label,
          .first = axis.first + part,
          .last = axis.last - part};
}

}  // namespace

bool attends_to_sensors(models::FieldNet& model) {
  return find_pgt(model) != nullptr;
}

std::optional<SensorAttention> attention_at(models::FieldNet& model,
                                            const Tensor& window,
                                            int64_t sensor, int64_t sensors) {
  auto* pgt = find_pgt(model);
  if (pgt == nullptr) return std::nullopt;
  const torch::NoGradGuard no_grad;
  model.eval();
  SensorAttention attention{.sensor = sensor};
  std::vector<Tensor> layers;
  const auto keep = [&](const Tensor& weights, const nn::AttentionBias& bias) {
    const int64_t tokens = weights.size(-1);
    if (tokens != sensors + 1) return;
    layers.push_back(kept(weights[0].select(1, sensor + 1)).mean(0));
    const auto added =
        bias.added(tokens, tokens, weights.options().dtype(torch::kFloat64));
    if (!added.defined()) return;
    attention.green = torch::softmax(kept(added[0][0][sensor + 1]), /*dim=*/-1);
  };
  {
    const Observed observed(
        *pgt,
        [&](const Tensor& weights) {
          attention.point = kept(weights.select(1, 0));
        },
        keep);
    model.values(window);
  }
  if (layers.empty()) return std::nullopt;
  attention.layers = torch::stack(layers);
  return attention;
}

int64_t telling_sensor(const Tensor& points,
                       const std::vector<pde::Interval>& domain, int64_t time) {
  Tensor distance = torch::zeros({points.size(0)}, torch::kFloat64);
  for (int64_t v = 0; v < points.size(1); ++v) {
    const auto& [low, high] = domain[static_cast<size_t>(v)];
    const double wanted = low + (v == time ? 0.75 : 0.5) * (high - low);
    distance += ((points.select(1, v) - wanted) / (high - low)).square();
  }
  return distance.argmin().item<int64_t>();
}

void draw_attention(const SensorAttention& attention, const Tensor& places,
                    const SolvePlane& plane, report::Report& report) {
  const auto up = plane.up();
  const report::FieldMaps like{
      .x = of_ground(plane.across()),
      .y = of_ground({.label = up.label, .first = up.last, .last = up.first}),
      .aspect = plane.aspect()};
  auto figure = report::figure_of("Attention to the sensors", like);
  const auto panel = [&](const std::string& title, const Tensor& weights) {
    return panel_of(title, weights, places, attention.sensor);
  };
  report::PanelRow point{.label = "a point", .bar_label = "weight"};
  const int64_t heads = attention.point.size(0);
  point.panels.push_back(panel("mean of heads", attention.point.mean(0)));
  for (int64_t h = 0; heads > 1 && h < std::min(heads, kShown); ++h) {
    point.panels.push_back(
        panel(fmt::format("head {}", h + 1), attention.point[h]));
  }
  report::PanelRow sensor{
      .label = "a sensor", .bar_label = "weight", .log = true};
  if (attention.green.defined()) {
    sensor.panels.push_back(
        panel("Green's function alone", attention.green.slice(0, 1)));
  }
  std::string global;
  for (int64_t n = 0; n < attention.layers.size(0); ++n) {
    const auto weights = attention.layers[n];
    global += fmt::format("{}{:.0f} % in layer {}", n == 0 ? "" : ", ",
                          100 * weights[0].item<double>(), n + 1);
    if (n >= kShown) continue;
    sensor.panels.push_back(
        panel(fmt::format("layer {}", n + 1), weights.slice(0, 1)));
  }
  figure.rows = {std::move(point), std::move(sensor)};
  report.figure(
      "sensor-attention", figure,
      fmt::format(
          "How much of its attention a point (red cross) gives to each sensor, "
          "and below that the sensor in the same place, in the layers of the "
          "encoder{}. Rings have no weight at all. The rest of a sensor's is "
          "the global token's: {}.{}",
          attention.green.defined()
              ? ", beside what the Green's function would give by itself"
              : "",
          global,
          plane.held() < 0
              ? ""
              : " Sensors of all times are drawn, large weights on top."));
}

}  // namespace propagator::tasks
